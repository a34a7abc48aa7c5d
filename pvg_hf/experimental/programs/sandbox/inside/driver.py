"""
Runs a program in its own process.

Nothing here is trusted by the relay: a program shares this process and may do to it what it likes. All it can gain is
to claim that it returned some value, and a claimed value counts only if it is the expected one, which is not in this
process.
"""

import atexit
import fcntl
import io
import json
import os
import random
import resource
import socket
import sys
import threading
import types
from typing import Any, NoReturn

from pvg_hf.experimental.programs.sandbox.inside.confinement import Filters, confine
from pvg_hf.experimental.programs.sandbox.inside.values import decode_value, encode_value

_SHOWN = 300  # characters of an error
_SEALS = 0xF  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE


def run_program(channel: int, stdout: int, filters: Filters) -> NoReturn:
    """
    Run the program that the channel sends, and end this process.

    Args:
        channel, stdout: Descriptors of the socket to the relay and of the pipe that takes the program's output.
        filters: Filters of system calls, of which this process puts one on itself first.
    """
    try:
        os.setsid()
        channel = _arrange_descriptors(channel, stdout)
        messages = socket.socket(fileno=channel).makefile("rwb")
        job = json.loads(_read_line(messages))
        if job["stdin"] is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        else:
            _provide_stdin(job["stdin"])
        os.chdir("/")
        random.seed(job["seed"])
        confine(filters, job["limits"])
        sys.setrecursionlimit(10_000)
        run = _serve_calls if job["stdin"] is None else _run_script
        run(messages, job["program"], job["limits"]["output_bytes"])
    finally:
        os._exit(70)


def _arrange_descriptors(channel: int, stdout: int) -> int:
    """Make the pipe descriptor 1 and the socket 3, and close all others."""
    null = os.open(os.devnull, os.O_RDWR)
    kept = [os.dup(number) for number in (null, stdout, null, channel)]
    for number, descriptor in enumerate(kept[:3]):
        os.dup2(descriptor, number)
    os.dup2(kept[3], 3)
    os.closerange(4, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16))
    return 3


def _provide_stdin(text: str) -> None:
    """Make a text what descriptor 0 and `sys.stdin` read."""
    is_sealed = sys.platform == "linux"
    descriptor = os.memfd_create("stdin", os.MFD_ALLOW_SEALING) if is_sealed else _temporary_file()
    data = text.encode(errors="surrogatepass")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    if is_sealed:  # or the program could grow it: no limit counts this memory
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, 0)
    os.close(descriptor)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, "rb", closefd=False), encoding="utf-8", errors="surrogateescape")


def _temporary_file() -> int:
    import tempfile

    return os.dup(tempfile.TemporaryFile().fileno())


def _read_line(messages: io.BufferedRWPair) -> bytes:
    parts = []
    while True:
        part = messages.readline(1 << 20)
        if not part:
            os._exit(0)  # the relay has ended
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)


def _say(messages: io.BufferedRWPair, message: dict[str, Any]) -> None:
    messages.write(json.dumps(message).encode() + b"\n")
    messages.flush()


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_SHOWN]
    except BaseException:  # noqa: BLE001 - the error is the program's own
        return type(error).__name__


def _serve_calls(messages: io.BufferedRWPair, program: str, output_bytes: int) -> None:
    """Load a program as a module, then call its functions as asked."""
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="utf-8", write_through=True)
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    try:
        exec(compile(program, "<solution>", "exec", dont_inherit=True), module.__dict__)
    except BaseException as err:  # noqa: BLE001 - whatever the program does is reported
        _say(messages, {"raised": _describe(err)})
        return
    _say(messages, {"loaded": True})
    while True:
        case = json.loads(_read_line(messages))
        try:
            answer = {"returned": _call(module, case, output_bytes)}
        except BaseException as err:  # noqa: BLE001 - as above
            answer = {"raised": _describe(err)}
        _say(messages, answer)


def _call(module: types.ModuleType, case: dict[str, Any], output_bytes: int) -> str:
    names = case["function"].split(".")
    function = module.__dict__[names[0]] if names[0] in module.__dict__ else _missing(names[0])
    for name in names[1:]:
        function = getattr(function() if isinstance(function, type) else function, name)
    text = json.dumps(encode_value(function(*map(decode_value, case["arguments"]))))
    if len(text) > output_bytes:
        raise OverflowError(f"the returned value takes {len(text)} bytes; the limit is {output_bytes}")
    return text


def _missing(name: str) -> NoReturn:
    raise NameError(f"the program defines no {name!r}")


def _run_script(messages: io.BufferedRWPair, program: str, output_bytes: int) -> None:
    """Run a program as Python runs a script, to the end of its threads and exit handlers."""
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="utf-8", errors="surrogateescape")
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.argv = ["solution.py"]
    code, error = 0, ""
    try:
        exec(compile(program, "<solution>", "exec", dont_inherit=True), main.__dict__)
    except SystemExit as err:
        code, error = _exit_code(err)
    except BaseException as err:  # noqa: BLE001 - whatever the program does is reported
        code, error = 1, _describe(err)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # programs that buffer their output write it there
    sys.stdout.flush()
    if code:
        _say(messages, {"raised": error})
    os._exit(code)


def _exit_code(error: SystemExit) -> tuple[int, str]:
    if error.code is None or isinstance(error.code, int):
        code = (error.code or 0) & 0xFF
        return code, f"SystemExit: {code}" if code else ""
    return 1, f"SystemExit: {error.code}"[:_SHOWN]
