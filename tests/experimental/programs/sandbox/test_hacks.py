"""The matrix of tricks and ways to grade: none passes in a sandbox."""

import pytest

from benchmarks.sandbox_hacks import CALL, HACKS, IN_PROCESS, LIMITS, SCRIPT, fools, outcomes_of
from pvg_hf.experimental.programs.sandbox import CaseOutcome, open_sandbox
from pvg_hf.experimental.programs.sandbox.backends import make_backends


@pytest.fixture(scope="module", params=["bubblewrap", "none"])
def sandbox(request):
    lacking = make_backends()[request.param].lacking
    if lacking is not None:
        pytest.skip(lacking)
    with open_sandbox(request.param) as opened:
        yield opened


@pytest.mark.parametrize("hack", HACKS)
def test_a_trick_does_not_pass(sandbox, hack):
    found = outcomes_of(hack, sandbox)
    assert CaseOutcome.PASSED not in found
    assert CaseOutcome.HOST_FAILED not in found  # it is the program's own doing


def test_an_honest_program_passes(sandbox):
    function, script = "def double(x):\n    return 2 * x\n", "n = int(input())\nprint(n)\nprint(2 * n)\n"
    found = [sandbox.run(function, [CALL], LIMITS)[0], sandbox.run(script, [SCRIPT], LIMITS)[0]]
    assert [result.outcome for result in found] == [CaseOutcome.PASSED] * 2


@pytest.mark.parametrize(
    ("hack", "grader"),
    [
        ("`sys.exit(0)`", "exit status"),
        ("`__eq__` that is always true", "`==` in the process"),
        ("forged marker on stdout", "marker on stdout"),
        ("sentinel file", "file"),
    ],
    ids=list(IN_PROCESS),
)
def test_the_tricks_do_pass_graders_in_the_process(hack, grader):
    assert fools(hack, grader)
