"""A warm worker: a Python process that runs one program after another, each in a process of its own."""

import json
import os
import secrets
import select
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pvg_hf.experimental.programs.sandbox.backends import Backend
from pvg_hf.experimental.programs.sandbox.inside.boot import HEADER_BYTES, encode_frame

_INSIDE = Path(__file__).parent / "inside"
_START_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
_SPARE_SECONDS = 30.0  # beyond the longest time that the worker itself allows a job
_BUSY_FACTOR = 10  # as in `pvg_hf/experimental/programs/sandbox/inside/relay.py`

# What programs see. The locale and the time zone are fixed so that results are the same everywhere.
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONUTF8": "1",
}
_PYTHON_ARGUMENTS = ("-s", "-S", "-B", "-P", "-X", "utf8")


class WorkerProcess:
    """
    A worker of a backend.

    Args:
        hash_seed: `PYTHONHASHSEED` of its Python, and so of all its programs: 0 to 4294967295.
    Raises `OSError` if its command cannot be run, or if it ends or hangs before it is ready. The message has its last
        words.
    """

    def __init__(self, backend: Backend, hash_seed: int = 0):
        environment = {**_ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed)}
        arguments = [*_PYTHON_ARGUMENTS, "-c", (_INSIDE / "boot.py").read_text(encoding="utf-8")]
        self._process = subprocess.Popen(
            backend.command(arguments, environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if backend.keeps_environment else environment,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the game, which ends its workers itself
        )
        os.set_blocking(self._process.stdin.fileno(), False)
        sent = self._send({"sources": _module_sources(), "is_filtered": backend.isolates}, _START_SECONDS)
        answer = self._receive(_START_SECONDS) if sent else None
        if answer != {"ready": True}:
            said = self._end_with_last_words()
            raise OSError(
                f"The worker of the sandbox `{backend.name}` does not start: {said[-500:] or 'it says nothing.'}"
            )

    def _end_with_last_words(self) -> str:
        """End the worker and return what it wrote to stderr."""
        self._process.kill()
        try:
            said = self._process.communicate(timeout=_CLOSE_SECONDS)[1]
        except subprocess.TimeoutExpired:  # a process that it started holds stderr open
            said = b""
        self.close()
        return said.decode(errors="replace").strip()

    def run(self, job: Mapping[str, Any]) -> list[list[Any]] | None:
        """
        Run a program on its cases.

        Args:
            job: As in [`pvg_hf.experimental.programs.sandbox.inside.relay.run_job`].
        Returns: for each case `[kind, output, detail, seconds]`; `None` if the worker was lost, which the program may
            have done. It must then be closed.
        """
        nonce = secrets.token_hex(16)
        if not self._send({**job, "nonce": nonce}, _SPARE_SECONDS):
            return None
        num_cases = len(job["cases"])
        longest = _SPARE_SECONDS + _BUSY_FACTOR * job["limits"]["wall_seconds"] * (2 * num_cases + 1)
        answer = self._receive(longest)
        if not isinstance(answer, dict) or answer.get("nonce") != nonce:
            return None
        results = answer.get("results")
        return results if isinstance(results, list) and len(results) == num_cases else None

    def _send(self, message: Mapping[str, Any], seconds: float) -> bool:
        view = memoryview(encode_frame(message))
        deadline = time.monotonic() + seconds
        descriptor = self._process.stdin.fileno()
        while view:
            if not select.select([], [descriptor], [], max(0.0, deadline - time.monotonic()))[1]:
                return False
            try:
                view = view[os.write(descriptor, view) :]
            except BrokenPipeError:
                return False
        return True

    def _receive(self, seconds: float) -> Any:
        """The next message; `None` if the worker ends, hangs or says something else."""
        deadline = time.monotonic() + seconds
        header = self._read(HEADER_BYTES, deadline)
        try:
            data = self._read(int(header, 16), deadline) if header is not None else None
            return json.loads(data) if data is not None else None
        except (ValueError, RecursionError):
            return None

    def _read(self, number: int, deadline: float) -> bytes | None:
        parts = bytearray()
        descriptor = self._process.stdout.fileno()
        while len(parts) < number:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            part = os.read(descriptor, min(number - len(parts), 1 << 20))
            if not part:
                return None
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """End the worker, and with it the program that it runs, if any."""
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # which it takes as its end
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()


def _module_sources() -> dict[str, str]:
    """Sources of the modules that run inside, by dotted name."""
    inside = "pvg_hf.experimental.programs.sandbox.inside"
    packages = inside.split(".")
    sources = {".".join(packages[:number]): "" for number in range(1, len(packages) + 1)}
    for path in _INSIDE.glob("*.py"):
        if path.stem != "__init__":
            sources[f"{inside}.{path.stem}"] = path.read_text(encoding="utf-8")
    return sources
