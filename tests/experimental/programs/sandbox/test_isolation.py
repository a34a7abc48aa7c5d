"""Guarantees of each backend that isolates: every attempt to reach beyond the sandbox is refused."""

import os
import textwrap
from pathlib import Path

import pytest

from pvg_hf.experimental.programs.sandbox import CallCase, CaseOutcome, Limits, StdinCase, open_sandbox
from pvg_hf.experimental.programs.sandbox.backends import make_backends

# `container` needs docker or podman with its image: PVG_SANDBOXES=container pytest
# tests/experimental/programs/sandbox/test_isolation.py
ISOLATING = os.environ.get("PVG_SANDBOXES", "bubblewrap").split()
READS_THE_IMAGE = "open('/etc/passwd').read()"


@pytest.fixture(scope="module", params=ISOLATING)
def isolated(request):
    lacking = make_backends()[request.param].lacking
    if lacking is not None:
        pytest.skip(lacking)
    with open_sandbox(request.param) as sandbox:
        yield sandbox


ATTEMPTS = {
    "writes its folder": "open('written', 'w')",
    "writes /tmp": "open('/tmp/written-by-a-program', 'w')",
    "writes /dev/shm": "open('/dev/shm/written-by-a-program', 'w')",
    "writes a file of the user": "open(path, 'a')",
    "cuts a file of the user": "os.truncate(path, 0)",
    "removes a file of the user": "os.remove(path)",
    "links to a file of the user": "os.link(path, path + '2')",
    "changes the mode of a file": "os.chmod(path, 0o777)",
    "changes the time of a file": "os.utime(path, (0, 0))",
    "makes a folder": "os.mkdir(path + '-folder')",
    "makes a pipe": "os.mkfifo(path + '-pipe')",
    "reads a file of the user": "open(path).read()",
    "lists a folder of the user": "os.listdir(os.path.dirname(path))",
    "reads /etc/passwd": READS_THE_IMAGE,
    "reads the game's memory": "open(f'/proc/{game}/mem', 'rb')",
    "reads the game's environment": "open(f'/proc/{game}/environ', 'rb').read()",
    "reads its parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "writes its parent's descriptors": "[open(f'/proc/{os.getppid()}/fd/{n}', 'wb') for n in range(3, 20)]",
    "opens a socket": "__import__('socket').socket()",
    "opens a Unix socket": "__import__('socket').socket(__import__('socket').AF_UNIX)",
    "opens a pair of datagram sockets": "__import__('socket').socketpair(type=__import__('socket').SOCK_DGRAM)",
    "connects": "__import__('urllib.request').request.urlopen('http://127.0.0.1:1', timeout=1)",
    "signals the game": "os.kill(game, 0)",
    "signals its parent": "os.kill(os.getppid(), 9)",
    "signals everything": "os.kill(-1, 9)",
    "stops its parent": "os.kill(os.getppid(), 19)",
    "signals by a descriptor": "__import__('fcntl').fcntl(0, 8, os.getppid())",
    "starts a shell": "os.execv('/bin/sh', ['sh'])",
    "starts a process": "__import__('subprocess').run(['/bin/true'])",
    "forks": "os.fork()",
    "lowers another process's limits": "__import__('resource').prlimit(os.getppid(), 7, (1, 1))",
    "lowers another process's priority": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "traces its parent": "call('ptrace', 16, os.getppid(), 0, 0)",
    "makes a namespace": "call('unshare', 0x10000000)",
    "mounts": "call('mount', b'none', b'/tmp', b'tmpfs', 0, None)",
    "shares memory by name": "call('shmget', 1234, 4096, 0o1777)",
    "keeps memory that no limit counts": "os.memfd_create('memory')",
    "watches a folder of the user": (
        "call('inotify_add_watch', call('inotify_init'), os.path.dirname(path).encode(), 0xfff)"
    ),
    "changes its root": "os.chroot('/tmp')",
    "raises its own rights": "os.setuid(1000) or os.setgroups([0])",
}
PROGRAM = """
import os, ctypes
def call(name, *arguments):
    found = getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments)
    if found == -1:
        raise OSError(ctypes.get_errno(), name)
    return found
def attempt(path, game):
    try:
        {statement}
    except OSError as err:
        return "refused"
    return "succeeded"
"""


@pytest.mark.parametrize("statement", ATTEMPTS.values(), ids=ATTEMPTS)
def test_an_attempt_to_reach_outside_is_refused(isolated, tmp_path, statement):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    before = secret.stat()
    program = PROGRAM.format(statement=statement)
    # A container has an /etc/passwd of its own.
    expected = "succeeded" if isolated.backend.name == "container" and statement == READS_THE_IMAGE else "refused"
    (result,) = isolated.run(program, [CallCase("attempt", (str(secret), os.getpid()), expected)])
    assert result.outcome is CaseOutcome.PASSED, result
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert secret.read_text(encoding="utf-8") == "secret"
    assert (secret.stat().st_mode, secret.stat().st_mtime) == (before.st_mode, before.st_mtime)
    assert not Path("/tmp/written-by-a-program").exists()


def test_the_attempts_do_succeed_without_isolation(tmp_path):
    """Otherwise a mistake in an attempt would look like a refusal."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    with open_sandbox("none") as sandbox:
        for name in (
            "reads a file of the user",
            "changes the mode of a file",
            "opens a socket",
            "writes a file of the user",
            "keeps memory that no limit counts",
            "watches a folder of the user",
        ):
            program = PROGRAM.format(statement=ATTEMPTS[name])
            (result,) = sandbox.run(program, [CallCase("attempt", (str(secret), os.getpid()), "succeeded")])
            assert result.outcome is CaseOutcome.PASSED, name


USES = {
    "standard library": "import re, json, heapq, decimal, fractions, itertools, sqlite3, statistics\nprint(3)",
    "threads": "import threading\nt = threading.Thread(target=print, args=(3,))\nt.start()",
    "asyncio": "import asyncio\nasync def main():\n    print(3)\nasyncio.run(main())",
    "recursion": (
        "import sys\nsys.setrecursionlimit(5000)\ndef f(n):\n    return n and 1 + f(n - 1)\nprint(3 if f(3000) else 0)"
    ),
    "executor": "from concurrent.futures import ThreadPoolExecutor as E\nprint(list(E(2).map(int, '3'))[0])",
    "time": "import time, datetime\ntime.sleep(0.01)\nprint(3 if datetime.datetime.now().year > 2000 else 0)",
}


@pytest.mark.parametrize("program", USES.values(), ids=USES)
def test_ordinary_programs_run(isolated, program):
    (result,) = isolated.run(
        textwrap.dedent(program), [StdinCase("", "3")], Limits(wall_seconds=10, processor_seconds=10)
    )
    assert result.outcome is CaseOutcome.PASSED, result


def test_programs_that_may_start_processes_are_counted(isolated):
    two = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0); print('parent')\nelse: os._exit(0)"
    assert isolated.run(two, [StdinCase("", "parent")], Limits(num_processes=4))[0].outcome is CaseOutcome.PASSED
    bomb = isolated.run("import os\nwhile True: os.fork()", [StdinCase("")], Limits(num_processes=4))
    assert "more than 4 process" in bomb[0].detail


def test_isolation_is_declared_and_auto_takes_the_strongest():
    backends = make_backends()
    working = [name for name, backend in backends.items() if backend.isolates and backend.lacking is None]
    if not working:
        with pytest.raises(ValueError, match=r"none.*named"):
            open_sandbox()
        return
    with open_sandbox() as sandbox:
        assert sandbox.backend.name == working[0]
        assert sandbox.isolation.startswith(f"{sandbox.backend.name}: ")
        assert "no file" in sandbox.isolation
