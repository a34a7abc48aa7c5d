"""
Run generated hostile programs in a sandbox and report what they achieved.

    python -m tools.attack_sandbox --backend bubblewrap --programs 1000 --seed 0
"""

import argparse
import ctypes
import os
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from pvg_hf.core.seeding import derive_rng, derive_seed
from pvg_hf.experimental.programs.sandbox import CallCase, Limits, StdinCase, open_sandbox

_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_SECONDS_TO_END = 5.0  # a killed process with much memory takes a moment to end

WRITES = (
    "open(place + '/x{n}', 'w').write('x')",
    "open('/tmp/attack-{n}', 'w')",
    "os.mkdir('/tmp/attack-{n}')",
    "os.remove(kept)",
)
WRITES += (
    "os.chmod(kept, 0)",
    "open(kept, 'a').write('x')",
    "os.symlink('/etc', '/tmp/attack-{n}')",
    "os.truncate(kept, 0)",
)
WRITES += ("open('/dev/shm/attack-{n}', 'w')", "os.utime(kept, (0, 0))", "os.rename(kept, kept + '{n}')")
PROCESSES = (
    "os.fork()",
    "[os.fork() for _ in range(20)]",
    "subprocess.Popen(['sleep', '60'])",
    "os.system('sleep 60 &')",
)
PROCESSES += (
    "os.kill(os.getppid(), 9)",
    "os.kill(-1, 9)",
    "os.kill(game, 9)",
    "os.killpg(0, 9)",
    "os.setsid()",
    "os.kill(1, 15)",
)
PROCESSES += (
    "os.kill(os.getpid(), {n} % 31 + 1)",
    "signal.setitimer(0, 0.01)",
    "os.execv('/bin/sleep', ['sleep', '60'])",
)
READS = (
    "open('/proc/%d/mem' % os.getppid(), 'rb').read(10)",
    "open('/proc/%d/environ' % game).read()",
    "open(kept).read()",
)
READS += ("[f.f_locals for f in sys._current_frames().values()]", "gc.get_objects()", "open('/etc/shadow').read()")
NETWORK = ("socket.socket().connect(('127.0.0.1', 22))", "socket.create_server(('', 0))", "socket.socketpair()")
NETWORK += ("socket.socket(socket.AF_UNIX).connect('/run/x')",)
MEMORY = ("bytearray(10**10)", "[0] * 10**9", "'x' * 10**9", "x = []\n    while True: x.append(x * 2 or 'y' * 10**6)")
OUTPUT = (
    "sys.stdout.write('PASSED\\n' * 10**5)",
    "[os.write(fd, b'x' * 10**5) for fd in range(1, 9)]",
    "os.close({n} % 8)",
)
OUTPUT += ('os.write(3, b\'{{"returned": "1"}}\\n\' * 3)', "os.dup2(1, 3)", "os.write(3, b'\\xff' * 10**6)")
TIME = (
    "time.sleep(60)",
    "while True: pass",
    "sum(range(10**9))",
    "threading.Thread(target=time.sleep, args=(60,)).start()",
)
PATCHES = ("builtins.len = builtins.type = None", "json.dumps = lambda *a, **k: '1'", "sys.settrace(lambda *a: None)")
PATCHES += (
    "sys.modules.clear()",
    "sys.setrecursionlimit(10**6)",
    "ctypes.string_at({n})",
    "os._exit(0)",
    "sys.exit(0)",
)
ATTACKS = (WRITES, PROCESSES, READS, NETWORK, MEMORY, OUTPUT, TIME, PATCHES)
HEAD = (
    "import os, sys, time, signal, socket, subprocess, threading, builtins, json, gc, ctypes\nkept, place, game ="
    " {kept!r}, {place!r}, {game}\n"
)


def write_program(seed: int, number: int, kept: Path) -> tuple[str, bool]:
    """Return a hostile program of one to four attacks, and whether it is a script."""
    rng = derive_rng(seed, "attack", number)
    lines = []
    for _ in range(int(rng.integers(1, 5))):
        kind = ATTACKS[int(rng.integers(len(ATTACKS)))]
        attack = kind[int(rng.integers(len(kind)))].format(n=number)
        lines.append(f"try:\n    {attack}\nexcept BaseException as err: pass\n")
    body = "".join(lines)
    head = HEAD.format(kept=str(kept), place=str(kept.parent), game=os.getpid())
    if rng.random() < 0.5:
        return head + body + "print('PASSED')\n", True
    inner = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{head}def answer(x):\n{inner}    return 'PASSED'\n", False


def _contents(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for path in folder.iterdir():
        status = path.lstat()
        found[path.name] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def _adopt_orphans() -> None:
    """Make this process the parent of its descendants whose own parent ends, so that none of them can leave it."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def _left_running() -> list[psutil.Process]:
    """
    Return the processes that this one started, directly or through others, and that are still running after a wait.
    """
    psutil.wait_procs(psutil.Process().children(recursive=True), timeout=_SECONDS_TO_END)
    return [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--backend", default="auto", help="a backend that isolates; `none` would let the attacks succeed"
    )
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.backend == "none":
        sys.exit(
            "The sandbox `none` isolates nothing: these programs would damage this machine. Name another backend."
        )
    limits = Limits(wall_seconds=0.1, processor_seconds=0.1, memory_mb=256)
    _adopt_orphans()
    started = time.monotonic()
    with TemporaryDirectory(prefix="kept-") as folder:
        kept = Path(folder) / "kept.txt"
        kept.write_text("kept", encoding="utf-8")
        before = _contents(Path(folder))
        outcomes: Counter[str] = Counter()
        with open_sandbox(options.backend) as sandbox:
            for number in range(options.programs):
                program, is_script = write_program(options.seed, number, kept)
                secret = str(derive_seed(options.seed, "secret", number))  # so every pass is a wrong one
                case = StdinCase("1\n", secret) if is_script else CallCase("answer", (1,), secret)
                outcomes[sandbox.run(program, [case], limits)[0].outcome.value] += 1
            honest = sandbox.run("def f(x):\n    return x + 1\n", [CallCase("f", (1,), 2)])[0].outcome.value
            isolation, lost = sandbox.backend.name, sandbox.counts.lost_workers
        changed = _contents(Path(folder)) != before or kept.read_text(encoding="utf-8") != "kept"
    written = [*Path("/tmp").glob("attack-*"), *Path("/dev/shm").glob("attack-*")]
    left = _left_running()
    print(
        f"{options.programs} hostile programs in `{isolation}`, seed {options.seed},"
        f" {time.monotonic() - started:.0f} s"
    )
    print(f"outcomes: {dict(sorted(outcomes.items()))}; wrong passes: {outcomes['passed']}; workers lost: {lost}")
    print(
        f"written outside: {len(written) + changed}; left running: {len(left)}; an honest program afterwards: {honest}"
    )
    sys.exit(
        1 if outcomes["passed"] or outcomes["host_failed"] or written or changed or left or honest != "passed" else 0
    )


if __name__ == "__main__":
    main()
