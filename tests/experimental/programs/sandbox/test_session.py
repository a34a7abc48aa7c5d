"""Programs in a sandbox: outcomes, limits, lost workers and the cache. The backend `none` runs everywhere."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pvg_hf.experimental.programs.sandbox import (
    NOTHING,
    CallCase,
    CaseOutcome,
    Limits,
    Sandbox,
    StdinCase,
    open_sandbox,
    worker_process,
)
from pvg_hf.experimental.programs.sandbox.backends import make_backends

PASSED, WRONG, CRASHED, TIMED_OUT = (
    CaseOutcome.PASSED,
    CaseOutcome.WRONG,
    CaseOutcome.CRASHED,
    CaseOutcome.TIMED_OUT,
)
SHORT = Limits(wall_seconds=0.3, processor_seconds=0.3)
DOUBLE = [CallCase("double", (number,), 2 * number) for number in (1, 2, 3)]
REPOSITORY = Path(__file__).parents[4]
SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@pytest.fixture(scope="module")
def sandbox():
    with open_sandbox("none") as opened:
        yield opened


def outcomes(results):
    return [result.outcome for result in results]


@pytest.mark.parametrize(
    ("program", "expected", "detail"),
    [
        pytest.param("def double(x):\n    return 2 * x", [PASSED] * 3, "", id="correct"),
        pytest.param(
            "def double(x):\n    return 2 * x if x < 3 else 0", [PASSED, PASSED, WRONG], "", id="wrong on one"
        ),
        pytest.param(
            "def double(x):\n    return 2 * x if x != 2 else 1 / 0",
            [PASSED, CRASHED, PASSED],
            "ZeroDivision",
            id="raises",
        ),
        pytest.param(
            "def double(x):\n    import os\n    return 2 * x if x != 2 else os._exit(0)",
            [PASSED, CRASHED, PASSED],
            "ended before",
            id="exits",
        ),
        pytest.param(
            "def double(x):\n    while x == 2: pass\n    return 2 * x",
            [PASSED, TIMED_OUT, PASSED],
            "more than 0.3 s",
            id="loops",
        ),
        pytest.param("def double(x:", [CRASHED] * 3, "SyntaxError", id="does not parse"),
        pytest.param("1 / 0", [CRASHED] * 3, "ZeroDivision", id="does not load"),
        pytest.param("triple = 3", [CRASHED] * 3, "'double'", id="lacks the function"),
        pytest.param("\0", [CRASHED] * 3, "null", id="null byte"),
        pytest.param("", [CRASHED] * 3, "'double'", id="empty"),
    ],
)
def test_calls(sandbox, program, expected, detail):
    results = sandbox.run(program, DOUBLE, SHORT)
    assert outcomes(results) == expected
    failed = [result for result in results if result.outcome in (CRASHED, TIMED_OUT)]
    assert all(detail in result.detail and result.output is None for result in failed)
    assert all(result.detail == "" for result in results if result.outcome in (PASSED, WRONG))


def test_outputs_are_json_texts(sandbox):
    results = sandbox.run("def f(x):\n    return (x, {x})", [CallCase("f", (7,)), CallCase("f", ("a",), ("a", {"a"}))])
    assert [result.output for result in results] == [
        '{"__tuple__": [7, {"__set__": [7]}]}',
        '{"__tuple__": ["a", {"__set__": ["a"]}]}',
    ]
    assert outcomes(results) == [PASSED, PASSED]


def test_methods_of_a_class_are_called_on_a_new_object(sandbox):
    program = (
        "class Solution:\n    def __init__(self):\n        self.n = 1\n    def add(self, x):\n        self.n += x\n   "
        "     return self.n"
    )
    assert outcomes(sandbox.run(program, [CallCase("Solution.add", (2,), 3)] * 2)) == [PASSED, PASSED]


def test_arguments_keep_their_types(sandbox):
    arguments = ((1, 2), {3}, {1: "a"}, b"x")
    results = sandbox.run("def f(*given):\n    return [type(x).__name__ for x in given]", [CallCase("f", arguments)])
    assert results[0].output == '["tuple", "set", "dict", "bytes"]'


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("print(int(input()) + 1)", [PASSED, WRONG], id="correct on the first"),
        pytest.param("import sys\nprint(3)\nsys.exit(0)", [PASSED, WRONG], id="exit status 0"),
        pytest.param("import sys\nprint(3)\nsys.exit(1)", [CRASHED, CRASHED], id="exit status 1"),
        pytest.param("import os\nos.write(1, b'3\\n')\nos._exit(0)", [PASSED, WRONG], id="leaves at once"),
        pytest.param("if __name__ == '__main__':\n    print(3)", [PASSED, WRONG], id="main"),
        pytest.param("print(sum(map(int, open(0))) + 1)", [PASSED, WRONG], id="reads descriptor 0"),
        pytest.param("import atexit\natexit.register(print, 3)", [PASSED, WRONG], id="prints at exit"),
        pytest.param(
            "import threading\nthreading.Thread(target=lambda: print(int(input()) + 1)).start()",
            [PASSED, WRONG],
            id="in a thread",
        ),
        pytest.param("input(); input()", [CRASHED, CRASHED], id="reads beyond the end"),
        pytest.param("import os\nos.ftruncate(0, 10**9)", [CRASHED, CRASHED], id="grows its input"),
        pytest.param("import os\nos.write(0, b'x')", [CRASHED, CRASHED], id="writes its input"),
        pytest.param("print('x' * 100_000)", [CRASHED, CRASHED], id="too much output"),
        pytest.param("while True: print('x')", [CRASHED, CRASHED], id="endless output"),
        pytest.param("while True: pass", [TIMED_OUT, TIMED_OUT], id="endless loop"),
        pytest.param("import time; time.sleep(60)", [TIMED_OUT, TIMED_OUT], id="sleeps"),
        pytest.param("import ctypes; ctypes.string_at(0)", [CRASHED, CRASHED], id="segmentation fault"),
        pytest.param("x = [0] * 10**10", [CRASHED, CRASHED], id="80 GB"),
    ],
)
def test_scripts(sandbox, program, expected):
    assert outcomes(sandbox.run(program, [StdinCase("2\n", "3\n"), StdinCase("2\n", "4\n")], SHORT)) == expected


def test_a_call_that_cannot_load_says_nothing_about_scripts(sandbox):
    program = "import sys\nif __name__ != '__main__': sys.exit(1)\nprint('hi')"
    cases = [*DOUBLE, StdinCase("", "hi"), *DOUBLE[:1]]
    assert outcomes(sandbox.run(program, cases)) == [CRASHED] * 3 + [PASSED] + [CRASHED]


def test_calls_and_scripts_can_be_mixed(sandbox):
    cases = [*DOUBLE, StdinCase("", "hi"), *DOUBLE, StdinCase("", "hi")]
    program = "def double(x):\n    return 2 * x\nprint('hi')"
    assert outcomes(sandbox.run(program, cases)) == [PASSED] * 8
    assert len(sandbox.run("1 / 0", cases)) == 8


def test_a_case_without_an_expected_value_passes_if_the_program_ends(sandbox):
    assert outcomes(sandbox.run("def f():\n    return None", [CallCase("f", (), NOTHING)])) == [PASSED]
    assert outcomes(sandbox.run("def f():\n    raise SystemExit(0)", [CallCase("f", ())])) == [CRASHED]
    assert outcomes(sandbox.run("pass", [StdinCase("")])) == [PASSED]


def test_no_expected_value_is_sent():
    from pvg_hf.experimental.programs.sandbox.session import _job_message

    message = repr(_job_message("pass", [CallCase("f", (1,), 987654), StdinCase("a", "secret")], Limits(), 0))
    assert "987654" not in message
    assert "secret" not in message


def test_an_endless_loop_costs_three_timeouts():
    cases = [CallCase("f", (number,)) for number in range(40)]
    with open_sandbox("none") as sandbox:
        results = sandbox.run("def f(x):\n    while True: pass", cases, SHORT)
    assert outcomes(results) == [TIMED_OUT] * 40
    assert "not run" not in results[2].detail
    assert all("not run" in result.detail for result in results[3:])


def test_processes_are_counted(sandbox):
    bomb = "import os\nwhile True:\n    os.fork()"
    for limits in (SHORT, Limits(num_processes=4)):
        (result,) = sandbox.run(bomb, [StdinCase("")], limits)
        assert result.outcome is CRASHED
        assert f"more than {limits.num_processes} process" in result.detail
    two = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0); print('parent')\nelse: os._exit(0)"
    assert outcomes(sandbox.run(two, [StdinCase("", "parent")], Limits(num_processes=4))) == [PASSED]


def test_nothing_that_a_program_starts_outlives_it(sandbox):
    program = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        sys.argv[:] = ["orphan"]
        time.sleep(600)
    os._exit(0)
"""
    with _adopted_orphans():  # whatever outlives its parent is found among this process's children
        before = set(psutil.Process().children(recursive=True))
        sandbox.run(program, [StdinCase("")], Limits(num_processes=8))
        started = set(psutil.Process().children(recursive=True)) - before
        _, left = psutil.wait_procs(started, timeout=100)  # a killed process takes a moment to end
    assert left == []


@contextmanager
def _adopted_orphans() -> Iterator[None]:
    """Be the parent of descendants whose own parent ends. Other processes of the tests have sandboxes of their own."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        assert prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


KILL_PARENTS = """
import os, signal
def double(x):
    parent = os.getppid()
    grandparent = int(open(f"/proc/{parent}/stat").read().rpartition(")")[2].split()[1])
    os.kill(grandparent, signal.SIGKILL)
    os.kill(parent, signal.SIGKILL)
    return 2 * x
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_that_kills_its_sandbox_has_crashed_and_the_next_one_runs():
    with open_sandbox("none", num_workers=2) as sandbox:
        good = "def double(x):\n    return 2 * x"
        found = sandbox.run_many([(good, DOUBLE, SHORT), (KILL_PARENTS, DOUBLE, SHORT), (good + "\n", DOUBLE, SHORT)])
        assert [outcomes(results) for results in found] == [[PASSED] * 3, [CRASHED] * 3, [PASSED] * 3]
        assert "ended its sandbox" in found[1][0].detail
        assert sandbox.counts.lost_workers == 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_that_dies_in_a_batch_is_replaced():
    with open_sandbox("none") as sandbox:
        sandbox.run("x = 1", DOUBLE)
        os.kill(sandbox._idle[0][0]._process.pid, signal.SIGKILL)
        assert outcomes(sandbox.run("def double(x):\n    return 2 * x", DOUBLE)) == [PASSED] * 3
        assert sandbox.counts.lost_workers == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_is_not_blamed_for_idle_workers_that_were_lost():
    with open_sandbox("none", num_workers=3) as sandbox:
        sleepers = [(f"import time; time.sleep(1)\nx = {number}", DOUBLE, Limits()) for number in range(3)]
        sandbox.run_many(sleepers)
        idle = sandbox._idle[0]
        assert len(idle) == 3
        for worker in idle:
            os.kill(worker._process.pid, signal.SIGKILL)
            worker._process.wait()
        assert outcomes(sandbox.run("def double(x):\n    return 2 * x", DOUBLE)) == [PASSED] * 3


def test_results_are_cached_by_program_cases_and_limits():
    program = "def double(x):\n    return 2 * x"
    with open_sandbox("none") as sandbox:
        first = sandbox.run(program, DOUBLE)
        assert sandbox.run(program, DOUBLE) == first
        assert (sandbox.counts.programs, sandbox.counts.cache_hits) == (1, 1)
        # Another expectation is judged again, without a run.
        assert (
            outcomes(sandbox.run(program, [CallCase("double", (number,), 0) for number in (1, 2, 3)])) == [WRONG] * 3
        )
        assert sandbox.counts.cache_hits == 2
        sandbox.run(program, DOUBLE[:2])
        sandbox.run(program, DOUBLE, SHORT)
        sandbox.run(program, DOUBLE, repeat=1)
        assert (sandbox.counts.programs, sandbox.counts.cache_hits) == (4, 2)
        assert sandbox.counts.outcomes == {"passed": 14, "wrong": 3}
        assert len(sandbox.run_many([(program, DOUBLE, Limits())] * 3)) == 3
        assert sandbox.counts.programs == 4
    with open_sandbox("none", cache=False) as sandbox:
        sandbox.run(program, DOUBLE)
        sandbox.run(program, DOUBLE)
        assert (sandbox.counts.programs, sandbox.counts.cache_hits) == (2, 0)


def test_random_draws_are_the_same_in_every_run_and_differ_between_repetitions():
    program = "import random\ndef f():\n    return [random.random(), hash('a')]"
    outputs = []
    for _ in range(2):
        with open_sandbox("none") as sandbox:
            outputs.append([sandbox.run(program, [CallCase("f", ())], repeat=repeat)[0].output for repeat in (0, 1)])
    assert outputs[0] == outputs[1]
    assert outputs[0][0] != outputs[0][1]


def test_the_order_of_a_set_varies_with_the_repetition_only():
    program = "def f():\n    return [hash('a'), list({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})]"
    outputs = []
    for _ in range(2):
        with open_sandbox("none") as sandbox:
            outputs.append(
                [sandbox.run(program, [CallCase("f", ())], repeat=repeat)[0].output for repeat in (0, 1, 2)]
            )
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0])) == 3


def test_locale_and_time_zone_are_fixed(sandbox, monkeypatch):
    program = "import os, time\ndef f():\n    return [time.timezone, os.environ['LC_ALL'], sorted(os.environ)]"
    (result,) = sandbox.run(program, [CallCase("f", ())])
    assert result.output.startswith('[0, "C.UTF-8", ')
    assert "HF_TOKEN" not in result.output


def test_no_program_inherits_anything_of_another(sandbox):
    """Whatever an earlier program was, read or wrote is in no process that a later one is forked from."""
    secret = "a-word-of-another-program"
    sandbox.run(f"def f(x):\n    return x + '{secret}'", [CallCase("f", (secret,))])
    search = f"""
def f():
    found = 0
    wanted = b'{secret[:12]}' + b'{secret[12:]}'
    with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
        for line in maps:
            span, rights, *_ , = line.split()
            if 'r' not in rights or '[v' in line:
                continue
            low, high = (int(part, 16) for part in span.split('-'))
            try:
                memory.seek(low)
                found += memory.read(high - low).count(wanted)
            except (OSError, OverflowError, ValueError):
                pass
    return found
"""
    if sys.platform == "linux":
        (result,) = sandbox.run(
            search, [CallCase("f", ())], Limits(wall_seconds=10, processor_seconds=10, memory_mb=2048)
        )
        if result.outcome is PASSED:  # where the process may read its own memory file
            assert int(result.output) <= 1  # the joined word itself


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "chroot"}, "chroot.*auto"),
        ({"backend": "none", "num_workers": 0}, "num_workers.*0"),
    ],
    ids=["unknown backend", "no worker"],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        open_sandbox(**settings)


def test_a_missing_library_is_named_with_its_package(monkeypatch):
    sources = worker_process._module_sources()
    broken = {name: text.replace("libseccomp.so.2", "libmissing.so.2") for name, text in sources.items()}
    monkeypatch.setattr(worker_process, "_module_sources", lambda: broken)
    with pytest.raises(ValueError, match=r"libmissing\.so\.2.*apt-get install libseccomp2"):
        Sandbox(replace(make_backends()["none"], isolates=True))


def test_limits_are_checked():
    with pytest.raises(ValueError, match=r"memory_mb.*-5"):
        Limits(memory_mb=-5)


GAME = """
import signal, sys, time
from pvg_hf.experimental.programs.sandbox import CallCase, Limits, open_sandbox
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts the tests in the background ignores it
with open_sandbox(sys.argv[1]) as sandbox:
    sandbox.run("pass", [CallCase("f", ())])
    print("ready", flush=True)
    sandbox.run("def f():\\n    import time; time.sleep(600)", [CallCase("f", ())], Limits(wall_seconds=600))
"""


@pytest.mark.parametrize("moment", ["SIGKILL", "SIGINT"])
@pytest.mark.parametrize("backend", ["none", "bubblewrap"])
def test_no_process_is_left_when_the_game_is_killed(backend, moment):
    lacking = make_backends()[backend].lacking
    if lacking is not None:
        pytest.skip(lacking)
    game = subprocess.Popen(
        [sys.executable, "-c", GAME, backend],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert game.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    while len(started := psutil.Process(game.pid).children(recursive=True)) < 3:  # relay, forker, program
        time.sleep(0.05)
    game.send_signal(getattr(signal, moment))
    game.wait(100)
    game.stdout.close()
    _, alive = psutil.wait_procs(started, timeout=100)
    assert alive == []
