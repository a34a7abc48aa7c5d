"""
The process that talks to the parent: it takes programs and cases, watches time and output, and reports what happened.
"""

import json
import os
import select
import signal
import socket
import sys
import time
from itertools import count, takewhile
from typing import Any

from pvg_hf.experimental.programs.sandbox.inside.boot import encode_frame, read_frame
from pvg_hf.experimental.programs.sandbox.inside.confinement import SyscallFilter, drop_dumpable
from pvg_hf.experimental.programs.sandbox.inside.forker import FORK, KILL, REQUEST, STATUS, TOO_MANY, serve_forks

RETURNED, CRASHED, TIMED_OUT = "returned", "crashed", "timed_out"

_BUSY_FACTOR = 10  # how much more wall time a program gets that is waiting for a processor
_LOOK_SECONDS = 0.05  # between two looks at a program's processor time
_PIECE = 1 << 16
_numbers = count()  # of the programs of this worker


def serve(*, is_filtered: bool) -> None:
    """
    Answer the parent's jobs until it closes stdin or ends.

    A job has a nonce, which its answer repeats. It is read by this process only, after the processes that programs are
    forked from have started: no program can know it.

    Args:
        is_filtered: Whether the system calls of programs are filtered.
    """
    inward, outward = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    filters = tuple(SyscallFilter(may_start_processes=may) for may in (False, True)) if is_filtered else None
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        for descriptor in (inward, outward):
            os.close(descriptor)
        ours.close()
        serve_forks(theirs, filters)
        os._exit(0)
    theirs.close()
    if sys.platform == "linux":
        drop_dumpable()
    _write_frame(outward, {"ready": True})
    while True:
        job = read_frame(inward)
        results = run_job(job, ours, inward)
        _write_frame(outward, {"nonce": job["nonce"], "results": results})


def _write_frame(descriptor: int, message: dict[str, Any]) -> None:
    data = memoryview(encode_frame(message))
    while data:
        data = data[os.write(descriptor, data) :]


def run_job(job: dict[str, Any], forker: socket.socket, parent: int) -> list[list[Any]]:
    """
    Run a program on its cases.

    Args:
        job: `program`, `limits`, `seed`, and `cases`: mappings with `stdin`, or with `function` and `arguments`.
        forker: Connection to the process that forks programs.
        parent: Descriptor of the parent's pipe. Its end ends this process.
    Returns: for each case `[kind, output, detail, seconds]`.
    """
    results: list[list[Any]] = []
    while len(results) < len(job["cases"]):
        if _has_stalled(results, job["limits"]):
            number = job["limits"]["timeouts_in_a_row"]
            results.append([TIMED_OUT, None, f"not run, because the {number} cases before it timed out", 0.0])
        elif "stdin" in job["cases"][len(results)]:
            results.append(_run_script_case(job, job["cases"][len(results)], forker, parent))
        else:
            results += _run_call_cases(job, len(results), forker, parent)
    return results


def _has_stalled(results: list[list[Any]], limits: dict[str, Any]) -> bool:
    last = results[-limits["timeouts_in_a_row"] :]
    return len(last) == limits["timeouts_in_a_row"] and all(result[0] == TIMED_OUT for result in last)


def _run_script_case(job: dict[str, Any], case: dict[str, Any], forker: socket.socket, parent: int) -> list[Any]:
    program = RunningProgram(job, case["stdin"], forker, parent)
    ended = program.wait(None)
    if ended is None:  # it sent something, which only says why it is about to fail
        message = program.take_message()
        ended = program.wait(None) or program.stop(CRASHED, "sent more than one message")
        if ended[0] == CRASHED and "raised" in message:
            ended = (CRASHED, str(message["raised"]))
    kind, detail = ended
    output = program.output.decode(errors="replace") if kind == RETURNED else None
    return [kind, output, detail, program.seconds]


def _run_call_cases(job: dict[str, Any], first: int, forker: socket.socket, parent: int) -> list[list[Any]]:
    """Call functions in one process until it ends or a case fails to answer."""
    started = time.monotonic()
    program = RunningProgram(job, None, forker, parent)
    failure = _failure_of(program, program.wait(None))
    cases = list(takewhile(lambda case: "stdin" not in case, job["cases"][first:]))
    if failure is not None:  # loading it takes the same way for every call, so all fail alike
        return [[*failure, program.seconds], *([*failure, 0.0] for _ in cases[1:])]
    results = []
    for case in cases:
        program.begin()
        ended = program.wait({"function": case["function"], "arguments": case["arguments"]})
        seconds = time.monotonic() - started
        if ended is None:
            message = program.take_message()
            if "returned" in message:
                results.append([RETURNED, str(message["returned"]), "", seconds])
            else:
                results.append([CRASHED, None, str(message.get("raised", "sent no result")), seconds])
        else:
            kind, detail = (
                ended if ended[0] != RETURNED else (CRASHED, "the process ended before the function returned")
            )
            results.append([kind, None, detail, seconds])
            return results
        started = time.monotonic()
    program.stop(RETURNED, "")
    return results


def _failure_of(program: "RunningProgram", ended: tuple[str, str] | None) -> list[Any] | None:
    """Return the reason that a program could not be loaded, as `[kind, None, detail]`; `None` if it was loaded."""
    if ended is None:
        message = program.take_message()
        if "loaded" in message:
            return None
        program.stop(CRASHED, "")
        return [CRASHED, None, str(message.get("raised", "sent no result"))]
    if ended[0] == RETURNED:
        return [CRASHED, None, "the process ended while the program was loaded"]
    return [ended[0], None, ended[1]]


class RunningProgram:
    """
    A program in its process.

    Args:
        job: `program`, `limits` and `seed`.
        stdin: What it reads, if it is run as a script.
    """

    def __init__(self, job: dict[str, Any], stdin: str | None, forker: socket.socket, parent: int):
        self.limits, self.forker, self.parent = job["limits"], forker, parent
        self.output = bytearray()
        self._received = bytearray()
        self._ended: tuple[str, str] | None = None
        # A text of JSON takes up to six bytes for a byte of output.
        self._most = 8 * self.limits["output_bytes"] + 4096
        ours, theirs = socket.socketpair()
        self._stdout, writer = os.pipe()
        self._number = next(_numbers)
        request = REQUEST.pack(FORK, self._number, self.limits["num_processes"])
        socket.send_fds(forker, [request], [theirs.fileno(), writer])
        theirs.close()
        os.close(writer)
        self.channel = ours
        ours.setblocking(False)
        self.pid, _ = STATUS.unpack(self._read_status())
        self.begin()
        limits = {**self.limits, "num_cases": len(job["cases"])}
        message = {"program": job["program"], "stdin": stdin, "limits": limits, "seed": job["seed"]}
        self._pending = memoryview(_line(message))

    def begin(self) -> None:
        """Start the clock of a case."""
        self.started, self._processor_started = time.monotonic(), self._processor_seconds()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def take_message(self) -> dict[str, Any]:
        """Return the message that was received, which may say anything."""
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return {}
        return message if isinstance(message, dict) else {}

    def wait(self, message: dict[str, Any] | None) -> tuple[str, str] | None:
        """
        Send a message, if any, and wait for an answer or the end of the program.

        Returns: kind and detail of the end; `None` if there is an answer.
        """
        if message is not None:
            if self._received and self._ended is None:
                self.stop(CRASHED, "sent a result before it was asked")
            self._pending = memoryview(_line(message))
            if self.channel is not None:
                self._write()  # without looking first whether it can be, as it can nearly always
        while b"\n" not in self._received:
            if self._ended is not None:
                return self._ended
            self._step()
        return None

    def _step(self) -> None:
        """Read and write what can be, and check the limits."""
        reading = [place for place in (self.forker, self.parent, self.channel, self._stdout) if place is not None]
        writing = [self.channel] if self._pending and self.channel is not None else []
        left = self.limits["wall_seconds"] - self.seconds
        readable, writable, _ = select.select(reading, writing, [], min(max(left, 0.01), _LOOK_SECONDS))
        if self.parent in readable:  # it sends nothing during a job, so this is its end
            os._exit(0)
        if writable:
            self._write()
        if self._stdout in readable:
            self._read_output()
        if self.channel in readable:
            self._read_channel()
        if self._has_flooded():
            self.stop(CRASHED, f"wrote more than {self.limits['output_bytes']} bytes of output")
        elif self.forker in readable:
            self._collect()
        else:
            self._check_time()

    def _has_flooded(self) -> bool:
        return len(self.output) > self.limits["output_bytes"] or len(self._received) > self._most

    def _write(self) -> None:
        try:
            self._pending = self._pending[self.channel.send(self._pending[:_PIECE]) :]
        except BlockingIOError:
            return
        except OSError:  # the program closed its end
            self._pending = memoryview(b"")

    def _read_output(self) -> None:
        part = os.read(self._stdout, _PIECE)
        self.output += part
        if not part:
            os.close(self._stdout)
            self._stdout = None

    def _read_channel(self) -> None:
        try:
            part = self.channel.recv(_PIECE)
        except BlockingIOError:
            part = None
        except OSError:
            part = b""
        if part is None:
            return
        self._received += part
        if not part:
            self.channel.close()
            self.channel = None

    def _check_time(self) -> None:
        limits = self.limits
        if self.seconds > _LOOK_SECONDS:
            used = self._processor_seconds() - self._processor_started
            if used > limits["processor_seconds"]:
                self.stop(TIMED_OUT, f"took more than {limits['processor_seconds']:g} s of processor time")
                return
        longest = _BUSY_FACTOR * limits["wall_seconds"]
        if self.seconds > longest or (self.seconds > limits["wall_seconds"] and not self._is_waiting_for_processor()):
            self.stop(TIMED_OUT, f"took more than {limits['wall_seconds']:g} s")

    def _processor_seconds(self) -> float:
        if sys.platform != "linux":
            return 0.0
        try:
            return time.clock_gettime(~self.pid << 3 | 2)  # the clock of another process, see clock_getcpuclockid(3)
        except OSError:
            return 0.0

    def _is_waiting_for_processor(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/stat", encoding="latin-1") as file:
                return file.read().rpartition(")")[2].split()[0] == "R"
        except OSError:
            return False

    def stop(self, kind: str, detail: str) -> tuple[str, str]:
        """End the program, with everything that it started. What it sent is forgotten."""
        if self._ended is None:
            self.forker.sendall(REQUEST.pack(KILL, self._number, 0))
            self._collect()
            self._received.clear()
            self._ended = (kind, detail)
        return self._ended

    def _collect(self) -> None:
        """Take the end of the process: its wait status, and what is left of its output."""
        _, status = STATUS.unpack(self._read_status())
        while self._stdout is not None and not self._has_flooded():
            self._read_output()
        while self.channel is not None and not self._has_flooded():
            self._read_channel()
        if self._stdout is not None:
            os.close(self._stdout)
        if self.channel is not None:
            self.channel.close()
        self._stdout = self.channel = None
        self._ended = self._meaning_of(status)
        if self._has_flooded():
            self._received.clear()
            self._ended = (CRASHED, f"wrote more than {self.limits['output_bytes']} bytes of output")

    def _meaning_of(self, status: int) -> tuple[str, str]:
        if status == TOO_MANY:
            return CRASHED, f"started more than {self.limits['num_processes']} process(es)"
        if os.WIFSIGNALED(status):
            return _meaning_of_signal(os.WTERMSIG(status))
        code = os.WEXITSTATUS(status)
        return (RETURNED, "") if code == 0 else (CRASHED, f"ended with exit status {code}")

    def _read_status(self) -> bytes:
        data = b""
        while len(data) < STATUS.size:
            part = self.forker.recv(STATUS.size - len(data))
            if not part:  # the forking process has ended: the parent starts another worker
                os._exit(1)
            data += part
        return data


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _meaning_of_signal(number: int) -> tuple[str, str]:
    if number == signal.SIGXCPU:
        return TIMED_OUT, "took more than its processor time"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return CRASHED, f"ended by {name}"
