"""Base checkers: commands and functions that may fail, hang or be killed."""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pvg_hf.core.extensions import ExtensionError
from pvg_hf.core.roles import Outcome
from pvg_hf.noise import CommandChecker, ImperfectChecker, Routing, Tier, WorkerChecker
from pvg_hf.noise.verdicts import Verdict

PROBLEM = {"problem_id": "p", "reference": "4"}
HALF = "4 \ud83d"  # of a surrogate pair, which no encoding holds
ECHO = "import sys; text = open(sys.argv[1]).read(); sys.exit(int(text))"


def python(code: str) -> CommandChecker:
    return CommandChecker([sys.executable, "-S", "-c", code, "{solution}", "{problem}"])


@pytest.fixture
def worker():
    checker = WorkerChecker("tests.support.noisy_functions:behave")
    yield checker
    checker.close()


@pytest.mark.parametrize(("text", "passed"), [("0", True), ("1", False), ("7", False)])
def test_the_exit_code_of_a_command_is_its_verdict(text, passed):
    verdict = python(ECHO).ask(PROBLEM, text, budget_seconds=30)
    assert (verdict.passed, verdict.error) == (passed, None)


def test_a_command_reads_the_problem(tmp_path):
    code = "import json, sys; sys.exit(json.load(open(sys.argv[2]))['reference'] != open(sys.argv[1]).read())"
    assert python(code).ask(PROBLEM, "4", 30).passed
    assert not python(code).ask(PROBLEM, "5", 30).passed


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["no-such-program", "{solution}"], "No such file"),
        (["sh", "-c", "echo out of memory >&2; kill -9 $$", "{solution}"], "-9: out of memory"),
        (["sh", "-c", "no-such-program", "{solution}"], "127: .*not found"),
    ],
)
def test_a_command_that_does_not_run_is_an_error(command, told):
    outcome = ImperfectChecker(CommandChecker(command), Tier("lean")).check(PROBLEM, "4")
    assert outcome.code == Outcome.VERIFIER_INTERNAL_ERROR
    assert outcome.label is None
    assert json.dumps(outcome.detail)
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(outcome.detail)


def test_a_text_that_no_file_can_hold_is_an_error_of_a_command():
    lines: list[str] = []
    outcome = ImperfectChecker(python(ECHO), Tier("lean"), write=lines.append).check(PROBLEM, HALF)
    assert (outcome.code, outcome.label) == (Outcome.VERIFIER_INTERNAL_ERROR, None)
    assert "surrogates not allowed" in outcome.detail
    assert json.loads(lines[0])["detail"] == outcome.detail


def num_running(marker: str) -> int:
    """Number of processes whose command line contains a text."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended since
            found += marker in path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path):
    seconds = f"600.{os.getpid()}"  # distinguishes it from other processes that sleep
    checker = CommandChecker(["sh", "-c", f"sleep {seconds} & sleep {seconds}", "{solution}"])
    outcome = ImperfectChecker(checker, Tier("lean", budget_seconds=0.2)).check(PROBLEM, "4")
    assert (outcome.code, outcome.noise, outcome.duration_ms) == (Outcome.VERIFIER_TIMEOUT, None, 200)
    for _ in range(200):  # a signal to a group is on its way for a moment
        if num_running(f"sleep {seconds}") == 0:
            return
        time.sleep(0.05)
    raise AssertionError(f"sleep {seconds} is still running")


@pytest.mark.parametrize("command", [[], ["lake", "build"]])
def test_a_command_without_the_solution_is_an_error(command):
    with pytest.raises(ValueError, match="`command` is"):
        CommandChecker(command)


def test_one_worker_serves_all_calls(worker):
    texts = ("right", "wrong", "raise", "exit", "die", "right", HALF)
    told = [worker.ask(PROBLEM, text, 100) for text in texts]
    assert [verdict.passed for verdict in told] == [True, False, None, None, None, True, False]
    assert told[2].error == "RuntimeError: no such lemma"
    assert told[3].error == "SystemExit: no such prover"
    assert "ended with 3" in told[4].error


@pytest.mark.parametrize("text", ["hang", "hang with a child"])
def test_a_worker_that_hangs_is_killed_and_replaced(worker, text):
    tier = Tier("lean", budget_seconds=0.5)
    started = time.monotonic()
    outcome = ImperfectChecker(worker, tier).check(PROBLEM, text)
    assert (outcome.code, outcome.noise, outcome.label) == (Outcome.VERIFIER_TIMEOUT, None, None)
    assert time.monotonic() - started < 300  # not the ten minutes that it would have slept
    assert worker.ask(PROBLEM, "right", 100).passed


def test_a_worker_whose_answer_is_not_a_boolean_is_an_error(worker):
    with pytest.raises(ExtensionError, match=r"returned None.* True"):
        worker.ask(PROBLEM, "shrug", 100)


def test_the_error_of_a_worker_that_cannot_start_has_the_reason(worker):
    verdict = WorkerChecker("tests.support.noisy_functions:no_such").ask(PROBLEM, "right", 100)
    assert verdict.passed is None
    assert "has no `no_such`" in verdict.error


def test_an_answer_beyond_the_budget_of_a_tier_is_a_timeout_there():
    """The answer is within the budget of the next tier, whose outcome counts."""
    routing = Routing((Tier("quick", budget_seconds=1), Tier("slow", budget_seconds=10)), "on_timeout", "quick")
    outcome = ImperfectChecker(None, routing).check(PROBLEM, "4", verdict=Verdict(True, seconds=3))
    assert [call.code for call in outcome.calls] == [Outcome.VERIFIER_TIMEOUT, Outcome.VERIFIED]


SECRETS = [
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_TOKEN_PATH",
    "WANDB_API_KEY",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DB_PASSWORD",
    "CLIENT_SECRET",
    "DATABASE_URL",
    "SSH_AUTH_SOCK",
    "GOOGLE_APPLICATION_CREDENTIALS",
]


@pytest.fixture
def secrets(monkeypatch):
    for name in SECRETS:
        monkeypatch.setenv(name, "x")


@pytest.mark.usefixtures("secrets")
def test_a_command_sees_no_secret_but_those_that_are_listed():
    code = "import os, sys; sys.exit(open(sys.argv[1]).read() not in os.environ)"
    command = [sys.executable, "-S", "-c", code, "{solution}"]
    plain, given = CommandChecker(command), CommandChecker(command, env=["DATABASE_URL", "NOT_SET_ANYWHERE"])
    seen = [name for name in SECRETS if plain.ask(PROBLEM, name, 30).passed]
    assert seen == []
    assert plain.ask(PROBLEM, "PATH", 30).passed
    assert given.ask(PROBLEM, "DATABASE_URL", 30).passed
    assert given.ask(PROBLEM, "NOT_SET_ANYWHERE", 30).passed is False
    assert given.ask(PROBLEM, "HF_TOKEN", 30).passed is False


@pytest.mark.usefixtures("secrets")
def test_a_function_sees_no_secret_but_those_that_are_listed():
    checker = WorkerChecker("tests.support.noisy_functions:sees", env=["WANDB_API_KEY"])
    try:
        seen = [name for name in (*SECRETS, "PATH") if checker.ask(PROBLEM, name, 60).passed]
    finally:
        checker.close()
    assert seen == ["WANDB_API_KEY", "PATH"]
