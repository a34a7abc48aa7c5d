"""Sentences that describe figures."""

from dataclasses import replace

import pytest

from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.evaluation.verifier_verdict import percent, verifier_statements
from pvg_hf.report.statements import write_verdict
from pvg_hf.run.read import load_run


@pytest.fixture(scope="module")
def run(run_template):
    return load_run(run_template(2))


def with_figures(run, *changes):
    """The run with figures of its evaluated rounds replaced."""
    rounds = [replace(data, figures={**data.figures, **change}) for data, change in zip(run.evaluated, changes)]
    return replace(run, rounds=rounds)


def said(run, subject):
    return next(statement for statement in write_verdict(run) if statement.subject.startswith(subject))


@pytest.mark.parametrize(
    ("change", "mark", "words"),
    [
        (Figure(-0.1, -0.15, -0.05, 60), "bad", "-10.0 points [-15.0, -5.0]: clearly less accurate than the base"),
        (Figure(0.1, 0.05, 0.15, 60), "good", "clearly more accurate than the base"),
        (Figure(0.01, -0.03, 0.05, 60), "open", "not clearly different from the base"),
        (EMPTY, "open", "Change unknown: too few problems (n=0) to tell"),
        (Figure(1.0, 0.2, 1.0, 3), "open", "+100.0 points [+20.0, +100.0]: too few problems (n=3) to tell"),
        (Figure(0.5, None, None, 60), "open", "Change +50.0 points: not clearly different from the base"),
    ],
    ids=["lower", "higher", "interval around 0", "unknown", "few problems", "no interval"],
)
def test_the_helpful_prover_is_compared_with_the_base(run, change, mark, words):
    statement = said(with_figures(run, {}, {"accuracy_change/helpful": change}), "Helpful")
    assert statement.mark == mark
    assert words in statement.text


def test_the_sneaky_prover_is_described_by_its_valid_mistakes(run):
    changes = {
        "valid_sneaky": Figure(0.7, 0.64, 0.75, 480),
        "failed/sneaky": Figure(0.05, 0.03, 0.07, 480),
        "valid_sneaky_change": Figure(0.4, 0.3, 0.5, 60),
        "accuracy_change/sneaky": Figure(0.4, 0.3, 0.5, 60),
    }
    statement = said(with_figures(run, {}, changes), "Sneaky")
    assert statement.mark == "good"
    assert "answers incorrectly on 70.0 % [64.0, 75.0] (n=480)" in statement.text
    assert "+40.0 points [+30.0, +50.0]: clearly more often wrong than the base" in statement.text
    assert "Failed solutions count as neither: 5.0 % [3.0, 7.0] (n=480)" in statement.text


def test_a_sneaky_prover_that_stopped_answering_is_reported(run):
    changes = {
        "accuracy_change/sneaky": Figure(-0.5, -0.6, -0.4, 40),
        "valid_sneaky_change": Figure(-0.5, -0.6, -0.4, 40),
    }
    statement = said(with_figures(run, {}, changes), "Sneaky")
    assert statement.mark == "bad"
    assert "clearly less often wrong than the base" in statement.text


def test_a_verifier_that_may_be_guessing_is_called_out(run):
    guessing = {"verifier_pair_accuracy": Figure(0.55, 0.48, 0.62, 100)}
    assert said(with_figures(run, {}, guessing), "Verifier pair").mark == "bad"
    assert said(run, "Verifier pair").mark == "plain"


def test_the_verdict_begins_with_the_verifiers(run):
    subjects = [statement.subject for statement in write_verdict(run)]
    statements = verifier_statements(run.evaluated)
    assert subjects[: len(statements)] == [statement.subject for statement in statements]
    assert subjects[0] == "Verifier 1 on its own prover"


@pytest.mark.parametrize(
    ("gain", "mark"),
    [
        (Figure(0.06, 0.01, 0.11, 150), "good"),
        (Figure(0.013, -0.04, 0.06, 150), "open"),
        (Figure(-0.06, -0.11, -0.01, 150), "bad"),
    ],
    ids=["helps", "unclear", "harms"],
)
def test_the_verifiers_choice_is_compared_with_the_first_solution_and_a_vote(run, gain, mark):
    shares = {"best": 0.833, "first": 0.82, "majority": 0.914}
    figures = {f"answers/{name}": Figure(value, None, None, 150) for name, value in shares.items()}
    statement = said(with_figures(run, {}, figures | {"answers/gain": gain}), "The verifier's choice")
    assert statement.mark == mark
    assert statement.text.startswith(
        "Right on 83.3 % (n=150); the first solution on 82.0 % (n=150), and the most frequent answer, without a"
        " verifier, on 91.4 % (n=150). "
    )


def test_a_choice_that_a_vote_beats_is_not_praised(run):
    figures = {
        "answers/gain": Figure(0.08, 0.006, 0.155, 150),
        "answers/best": Figure(0.9, 0.842, 0.938, 150),
        "answers/majority": Figure(0.976, 0.944, 0.99, 150),
    }
    statement = said(with_figures(run, {}, figures), "The verifier's choice")
    assert statement.mark == "bad"
    assert (
        "without a verifier, on 97.6 % [94.4, 99.0] (n=150), clearly more often. Choice less first +8.0"
        in statement.text
    )


def alerts_of(*kinds):
    return [{"event": "alert", "time": 1.7e9, "phase": "prover", "round": 0, "kind": kind} for kind in kinds]


EXPECTED = "The sneaky role is trained for goodharting: the alert says when the verifier began to give way."


@pytest.mark.parametrize(
    ("kinds", "mark", "text"),
    [
        ((), "plain", "none."),
        (("goodharting", "goodharting"), "plain", EXPECTED),
        (("helpful_goodharting",), "bad", ""),
        (("goodharting", "sneaky_collapse"), "bad", EXPECTED),
    ],
    ids=["none", "of every good game", "of the helpful role", "both"],
)
def test_alerts_are_counted_by_kind(run, kinds, mark, text):
    statement = said(replace(run, events=[{"event": "phase_finished"}, *alerts_of(*kinds)]), "Alerts")
    assert (statement.mark, statement.text) == (mark, text)
    assert statement.links == {
        f"{kind.replace('_', ' ')} ({kinds.count(kind)})": f"alert-{kind}" for kind in dict.fromkeys(kinds)
    }


@pytest.mark.parametrize(
    ("figure", "text"),
    [(Figure(0.5, 0.25, 0.75, 1200), "50.0 % [25.0, 75.0] (n=1,200)"), (EMPTY, "unknown (no solution)")],
    ids=["known", "unknown"],
)
def test_shares_are_written_in_percent(figure, text):
    assert percent(figure) == text


@pytest.mark.parametrize(
    ("now", "mark", "words"),
    [
        (Figure(0.02, 0.01, 0.03, 600), "good", "clearly less"),
        (Figure(0.36, 0.30, 0.42, 600), "open", "no clear change"),
        (Figure(0.50, 0.45, 0.55, 600), "bad", "clearly more"),
    ],
)
def test_implicit_steps_are_compared_with_the_base(run, now, mark, words):
    figures = {"implicit_share/helpful": now, "base_implicit_share/helpful": Figure(0.37, 0.35, 0.39, 600)}
    statement = said(with_figures(run, {}, figures), "Steps left implicit")
    assert statement.mark == mark
    assert "the base prover's in that role 37.0 % [35.0, 39.0] (n=600)" in statement.text
    assert words in statement.text


def test_a_task_without_implicit_steps_says_nothing_of_them(run):
    subjects = {
        statement.subject for statement in write_verdict(with_figures(run, {}, {"implicit_share/helpful": EMPTY}))
    }
    assert "Steps left implicit" not in subjects


def test_parity_is_reported_with_its_step_or_the_gap_that_is_left(run):
    reached = {"parity_step": Figure(31, None, None, 50), "parity_gap": Figure(0.05, None, None, 50)}
    missed = {"parity_step": Figure(None, None, None, 50), "parity_gap": Figure(1.234, None, None, 50)}
    statement = said(with_figures(run, reached, missed), "Parity")
    assert (
        statement.text
        == "In training, sneaky mistakes scored as high as helpful correct solutions, within the margin of the stop"
        " rules: in round 0 from step 31 (of at most 40); not in round 1 within 50 steps, with a score gap of 1.23"
        " left."
    )
    assert not [statement for statement in write_verdict(run) if statement.subject == "Parity"]


HIGH, LOW, WIDE = Figure(0.8, 0.7, 0.9, 300), Figure(0.3, 0.2, 0.4, 70), Figure(0.5, 0.1, 0.9, 10)


@pytest.mark.parametrize(
    ("helpful", "sneaky", "spared", "mark", "words"),
    [
        (HIGH, LOW, HIGH, "plain", ("the roles differ", ": clearly more")),
        (HIGH, LOW, LOW, "plain", ("the roles differ", "not clearly more")),
        (LOW, LOW, HIGH, "good", ("no clear difference between the roles", ": clearly more")),
        (LOW, LOW, WIDE, "open", ("no clear difference between the roles", "not clearly more")),
        (HIGH, HIGH, LOW, "open", ("no clear difference between the roles", "not clearly more")),
    ],
    ids=["both", "the role", "flaws", "neither", "flawless ones are rejected"],
)
def test_acceptance_is_compared_between_the_roles_and_within_the_sneaky_one(run, helpful, sneaky, spared, mark, words):
    cells = {
        "accepted_role/helpful/one_flaw": helpful,
        "accepted_role/sneaky/one_flaw": sneaky,
        "accepted_role/sneaky/flawless": spared,
    }
    statement = said(with_figures(run, {}, cells), "Checking")
    assert statement.mark == mark
    assert all(word in statement.text for word in words)


def test_a_game_without_marked_flaws_compares_right_and_wrong_solutions(run):
    cells = ("helpful/incorrect", "sneaky/incorrect", "sneaky/correct")
    figures = {f"accepted_role/{cell}": figure for cell, figure in zip(cells, (HIGH, LOW, HIGH))}
    unmarked = {"accepted_role/sneaky/flawless": EMPTY}
    statement = said(with_figures(run, {}, {**unmarked, **figures}), "Checking")
    assert "Of the solutions that are incorrect" in statement.text
    silent = with_figures(run, {}, {**unmarked, **figures, "accepted_role/sneaky/correct": EMPTY})
    assert not [found for found in write_verdict(silent) if found.subject.startswith("Checking")]
