"""
Tricks by which a program passes without solving its problem, against ways to grade it.

    python benchmarks/sandbox_hacks.py            # prints the table of tricks and outcomes

The first four graders decide within the program's process, as published ones do; the others are the sandbox's.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pvg_hf.experimental.programs.sandbox import CallCase, CaseOutcome, Limits, Sandbox, StdinCase, open_sandbox
from pvg_hf.experimental.programs.sandbox.backends import make_backends

LIMITS = Limits(wall_seconds=1, processor_seconds=1)
CALL, SCRIPT = CallCase("double", (21,), 42), StdinCase("21\n", "21\n42\n")  # a number and its double

_FRAMES = """
import sys
def double(x):
    frame = sys._getframe()
    while frame:
        for name in ("expected", "case", "job", "results"):
            if name in frame.f_locals:
                return frame.f_locals[name]
        frame = frame.f_back
"""
_EQUAL = """
class Anything(int):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = int.__hash__
def double(x):
    return Anything()
"""
_BUILTINS = """
import builtins, json
builtins.all = builtins.any = builtins.isinstance = lambda *given: True
json.dumps = lambda *given, **named: "42"
def double(x):
    return None
"""
_TESTS = """
import sys, types
for name in ("tests", "test_solution", "unittest", "__main__"):
    module = types.ModuleType(name)
    module.expected = module.EXPECTED = None
    module.check = lambda *given: True
    sys.modules[name] = module
def double(x):
    return None
"""
_SENTINEL = """
for name in ("passed", "result.json", ".done"):
    try:
        open(name, "w").write("passed")
    except OSError:
        pass
def double(x):
    return None
"""
_MARKER = """
print("ALL TESTS PASSED\\nVERDICT True")
def double(x):
    return None
"""

# Trick -> the program that defines a function, and the program that is a script.
HACKS = {
    "`sys.exit(0)`": ("import sys\ndef double(x):\n    sys.exit(0)\n", "import sys\nsys.exit(0)\n"),
    "`os._exit(0)`": ("import os\ndef double(x):\n    os._exit(0)\n", "import os\nos._exit(0)\n"),
    "`os._exit(0)` at exit": (
        "import atexit, os\natexit.register(os._exit, 0)\ndef double(x):\n    return None\n",
        "import atexit, os\natexit.register(os._exit, 0)\nraise ValueError\n",
    ),
    "`__eq__` that is always true": (_EQUAL, _EQUAL + "print(Anything())\n"),
    "expected value from frames": (_FRAMES, _FRAMES + "print(double(21))\n"),
    "built-in functions replaced": (_BUILTINS, _BUILTINS + "print(all([0]))\n"),
    "forged marker on stdout": (_MARKER, _MARKER),
    "sentinel file": (_SENTINEL, _SENTINEL),
    "test module overwritten": (_TESTS, _TESTS + "print(None)\n"),
    "infinite generator": (
        "import itertools\ndef double(x):\n    return itertools.count()\n",
        "import itertools\nfor n in itertools.count():\n    print(n)\n",
    ),
    "`Decimal` NaN": (
        "from decimal import Decimal\ndef double(x):\n    return Decimal('NaN')\n",
        "from decimal import Decimal\nprint(Decimal('NaN'))\n",
    ),
    "`float` NaN": ("def double(x):\n    return float('nan')\n", "print(float('nan'))\n"),
    "beginning of the output only": ("def double(x):\n    return 4\n", "print(input())\n"),
}


def _run_plainly(source: str, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, cwd=folder, timeout=20, check=False
    )


def _by_exit_status(program: str, folder: Path) -> bool:
    return _run_plainly(program + "\nassert double(21) == 42\n", folder).returncode == 0


def _by_comparison(program: str, folder: Path) -> bool:
    source = (
        f"expected = 42\nspace = {{}}\nexec({program!r}, space)\nprint('VERDICT', space['double'](21) == expected)\n"
    )
    return "VERDICT True" in _run_plainly(source, folder).stdout


def _by_marker(program: str, folder: Path) -> bool:
    source = program + "\nassert double(21) == 42\nprint('ALL TESTS PASSED')\n"
    return "ALL TESTS PASSED" in _run_plainly(source, folder).stdout


def _by_file(program: str, folder: Path) -> bool:
    _run_plainly(program + "\nassert double(21) == 42\nopen('passed', 'w').close()\n", folder)
    return (folder / "passed").exists()


IN_PROCESS: dict[str, Callable[[str, Path], bool]] = {
    "exit status": _by_exit_status,
    "`==` in the process": _by_comparison,
    "marker on stdout": _by_marker,
    "file": _by_file,
}


def outcomes_of(hack: str, sandbox: Sandbox) -> tuple[CaseOutcome, CaseOutcome]:
    """Outcomes of a trick as a function and as a script."""
    function, script = HACKS[hack]
    return sandbox.run(function, [CALL], LIMITS)[0].outcome, sandbox.run(script, [SCRIPT], LIMITS)[0].outcome


def fools(hack: str, grader: str) -> bool:
    """Whether a trick passes a grader that decides in the program's process."""
    with tempfile.TemporaryDirectory() as folder:
        return IN_PROCESS[grader](HACKS[hack][0], Path(folder))


def main() -> None:
    working = [name for name, backend in make_backends().items() if backend.lacking is None and name != "container"]
    heads = [*IN_PROCESS, *(f"{name}, {kind}" for name in working for kind in ("call", "script"))]
    print("| trick | " + " | ".join(heads) + " |\n|" + " --- |" * (len(heads) + 1))
    sandboxes = [open_sandbox(name) for name in working]
    for hack in HACKS:
        cells = ["**passes**" if fools(hack, grader) else "fails" for grader in IN_PROCESS]
        for sandbox in sandboxes:
            cells += [
                f"**{found.value}**" if found is CaseOutcome.PASSED else found.value
                for found in outcomes_of(hack, sandbox)
            ]
        print(f"| {hack} | " + " | ".join(cells) + " |", flush=True)
    for sandbox in sandboxes:
        sandbox.close()


if __name__ == "__main__":
    main()
