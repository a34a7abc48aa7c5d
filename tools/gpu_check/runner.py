"""Runs the parts of the check, each in separate processes with a time limit, and records their results."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tools.gpu_check.parts import OUT_OF_MEMORY, PARTS, ROOT, Part, environment
from tools.gpu_check.table import describe

NAME = "check_gpu"  # stem of the written files
DONE = ("done", "out of memory", "left out")  # states that another call does not repeat
NUM_LAST_LINES, LINE_LENGTH = 15, 300
SHORTEST = 20.0  # seconds; with less time left, no part is started
PAUSE = 5.0  # minimum seconds between two log lines shown to the user
GRACE = 3.0  # seconds between the request to end a process and its kill
INTERRUPTED = 130


@dataclass
class Check:
    """
    Runner of the check.

    Args:
        output: Folder of `check_gpu.json` and `check_gpu.md`.
        parts: Parts to run, in this order.
        seconds: Time limit for all parts of this call together.
        is_toy: Whether sizes are tiny; by default, they are if the probe finds no GPU.
        repeats: Whether to run finished parts again.
    """

    output: Path
    parts: Sequence[Part] = PARTS
    seconds: float = 25 * 60
    is_toy: bool | None = None
    repeats: bool = False
    results: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        self.deadline = time.monotonic() + self.seconds
        self._told: list[str] = []  # the last log line shown to the user
        self._told_at = 0.0
        self.work = self.output.with_name(f"{self.output.name}.work")  # large; deleted when everything is done
        self.results = self._read() or {"parts": {}}

    @property
    def file(self) -> Path:
        return self.output / f"{NAME}.json"

    def run(self) -> int:
        """
        Run the unfinished parts, as long as there is time.

        Returns: exit status; 0 if all parts are done, 1 if one failed or ran out of time, 130 if the user stopped.
        Raises `ValueError` if the output holds results of other sizes or of another machine.
        """
        (self.work / "results").mkdir(parents=True, exist_ok=True)
        self.output.mkdir(parents=True, exist_ok=True)
        try:
            with _terminated_as_interrupted():
                for number, part in enumerate(self.parts, start=1):
                    self._run_part(part, f"[{number}/{len(self.parts)}] {part.name}")
                    if part.name == "probe":
                        self._settle_sizes()
        except KeyboardInterrupt:
            for record in self.results["parts"].values():
                record["status"] = "stopped" if record["status"] == "running" else record["status"]
            _say("Stopped; the same command resumes.")
            return INTERRUPTED
        finally:
            self._write()
        _say(f"\n{describe(self.results)}\nWritten to {self.output}.")
        if self._are_done(PARTS):
            shutil.rmtree(self.work)
        return 0 if self._are_done(self.parts) else 1

    def _are_done(self, parts: Sequence[Part]) -> bool:
        return all(self.results["parts"].get(part.name, {}).get("status") in DONE for part in parts)

    def _settle_sizes(self) -> None:
        """Choose toy sizes if there is no GPU, and refuse to mix results of different sizes or machines."""
        record = self.results["parts"]["probe"]
        if record["status"] != "done":
            raise ValueError("\n".join(["The machine could not be probed:", *record["last_lines"]]))
        probe = record["figures"]
        is_toy = not probe["cuda"] if self.is_toy is None else self.is_toy
        setting = {"toy": is_toy, "device": probe["device"]}
        known = self.results.setdefault("setting", setting)
        if known != setting:
            raise ValueError(
                f"{self.file} holds results of {known}, and this call would add some of {setting}. Name another folder"
                " with `--output`, or delete that one."
            )

    def _run_part(self, part: Part, title: str) -> None:
        known = self.results["parts"].get(part.name, {})
        if known.get("status") in DONE and part.name != "probe" and not self.repeats:
            _say(f"{title}: {known['status']} before")
            return
        reason = self._reason_to_leave_out(part)
        if reason:
            self._record(part, {"status": "left out", "reason": reason})
            _say(f"{title}: left out, {reason}")
            return
        left = self.deadline - time.monotonic()
        if left < SHORTEST:
            _say(f"{title}: not started, as the time is over")
            return
        _say(
            f"{title}: {part.about} (at most {min(60 * part.minutes, left) / 60:.1f} of the {left / 60:.1f} minutes"
            " left)"
        )
        if self.repeats:
            self._result(part).unlink(missing_ok=True)
        self._record(part, {"status": "running", **self._figures(part)})
        record = self._run_steps(part, time.monotonic() + min(60 * part.minutes, left))
        self._record(part, record)
        _say(f"{title}: {record['status']} after {record['seconds']:.0f} s {record.get('reason', '')}".rstrip())

    def _reason_to_leave_out(self, part: Part) -> str | None:
        if part.needs_gpu and self.results["setting"]["toy"]:
            return "needs a GPU"
        return f"{part.needs} is not installed" if part.needs and find_spec(part.needs) is None else None

    def _run_steps(self, part: Part, end: float) -> dict[str, Any]:
        """Run one process after the other, until one fails."""
        started = time.monotonic()
        log = self.work / f"{part.name}.log"
        for step in part.steps:
            is_toy = self.results.get("setting", {}).get("toy", False)
            command = part.command(step, work=self.work, result=self._result(part), is_toy=is_toy)
            status, reason = self._run_process(part, command, log, end)
            if status != "done":
                break
        record = {"status": status, "seconds": round(time.monotonic() - started, 1), **self._figures(part)}
        return record if status == "done" else {**record, "reason": reason, "last_lines": _last_lines(log)}

    def _run_process(self, part: Part, command: list[str], log: Path, end: float) -> tuple[str, str]:
        """Run a process, and return its status and the reason. Its figures are recorded while it runs."""
        with log.open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment(), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.2)
                self._note_progress(part, log)
            if process.poll() is None:
                return "out of time", "its time was over"
        finally:
            _end(process)
        if process.returncode == 0:
            return "done", ""
        if process.returncode == OUT_OF_MEMORY:
            return "out of memory", "it does not fit in memory"
        return "failed", f"exit status {process.returncode}"

    def _note_progress(self, part: Part, log: Path) -> None:
        record = {"status": "running", **self._figures(part)}
        if self.results["parts"].get(part.name) != record:
            self._record(part, record)
        newest = _last_lines(log)[-1:]
        if newest and newest != self._told and time.monotonic() - self._told_at > PAUSE:
            self._told, self._told_at = newest, time.monotonic()
            _say(f"  {newest[0]}")

    def _result(self, part: Part) -> Path:
        return self.work / "results" / f"{part.name}.json"

    def _figures(self, part: Part) -> dict[str, Any]:
        """Figures that a part's processes have measured so far."""
        file = self._result(part)
        return {"figures": json.loads(file.read_text(encoding="utf-8"))} if file.exists() else {}

    def _record(self, part: Part, record: dict[str, Any]) -> None:
        self.results["parts"][part.name] = record
        self._write()

    def _read(self) -> dict[str, Any] | None:
        return json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else None

    def _write(self) -> None:
        for path, text in (
            (self.file, json.dumps(self.results, indent=1)),
            (self.file.with_suffix(".md"), describe(self.results)),
        ):
            partial = path.with_name(f".{path.name}.partial")
            partial.write_text(text + "\n", encoding="utf-8")
            os.replace(partial, path)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Turn SIGTERM into a `KeyboardInterrupt`, so that the part's process is ended, too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen) -> None:
    """End a process group, including processes that a launcher has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:  # all of its processes have ended
            break
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _last_lines(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line[:LINE_LENGTH] for line in lines if line.strip()][-NUM_LAST_LINES:]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
