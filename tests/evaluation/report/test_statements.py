"""Sentences that describe figures."""

from dataclasses import replace

import pytest

from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.evaluation.report.statements import percent, write_verdict
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


@pytest.mark.parametrize(
    ("first", "last", "mark", "words"),
    [
        (Figure(0.8, 0.7, 0.9, 50), Figure(0.2, 0.1, 0.3, 50), "good", "clearly fewer"),
        (Figure(0.2, 0.1, 0.3, 50), Figure(0.8, 0.7, 0.9, 50), "bad", "clearly more"),
        (Figure(0.2, 0.1, 0.3, 50), Figure(0.3, 0.2, 0.4, 50), "open", "no clear change"),
        (EMPTY, Figure(0.3, 0.2, 0.4, 50), "open", "no clear change"),
    ],
    ids=["fewer", "more", "intervals overlap", "first unknown"],
)
def test_exploits_of_the_first_and_the_last_round_are_compared(run, first, last, mark, words):
    statement = said(with_figures(run, {"exploit_rate": first}, {"exploit_rate": last}), "Verifier fooled")
    assert statement.mark == mark
    assert words in statement.text


def test_best_of_n_is_reported_for_the_largest_n_with_enough_problems(run):
    enough, few = Figure(0.9, 0.8, 0.95, 30), Figure(0.9, 0.5, 1.0, 29)
    figures = {"best_of_n/2": enough, "best_of_n/4": enough, "best_of_n/6": few}
    assert said(with_figures(run, figures, figures), "Balanced").subject == "Balanced best-of-4"
    none = dict.fromkeys(figures, few)
    assert not any(
        statement.subject.startswith("Balanced") for statement in write_verdict(with_figures(run, none, none))
    )


def test_a_verifier_that_may_be_guessing_is_called_out(run):
    guessing = {"verifier_pair_accuracy": Figure(0.55, 0.48, 0.62, 100)}
    assert said(with_figures(run, {}, guessing), "Verifier pair").mark == "bad"
    assert said(run, "Verifier pair").mark == "plain"


def test_alerts_are_counted_by_kind(run):
    assert said(run, "Alerts").links == {"sneaky collapse (1)": "alert-sneaky_collapse"}
    assert said(replace(run, events=[]), "Alerts").text == "none."


@pytest.mark.parametrize(
    ("figure", "text"),
    [(Figure(0.5, 0.25, 0.75, 1200), "50.0 % [25.0, 75.0] (n=1,200)"), (EMPTY, "unknown (no solution)")],
    ids=["known", "unknown"],
)
def test_shares_are_written_in_percent(figure, text):
    assert percent(figure) == text


@pytest.mark.parametrize(
    ("change", "mark", "words"),
    [
        (Figure(-0.3, -0.4, -0.2, 60), "good", "Change -30.0 points [-40.0, -20.0]: clearly fewer than before"),
        (Figure(0.3, 0.2, 0.4, 60), "bad", "clearly more than before"),
        (Figure(0.0, -0.1, 0.1, 60), "open", "not clearly different"),
    ],
    ids=["fewer", "more", "the same"],
)
def test_a_later_verifier_is_compared_on_the_same_mistakes(run, change, mark, words):
    figures = {
        "pools/accepted/round-001/round-000": Figure(0.2, 0.1, 0.3, 400),
        "pools/accepted_change/round-001/round-000": change,
    }
    statement = said(with_figures(run, {}, figures), "Later verifier")
    assert statement.mark == mark
    assert (
        "the verifier of round 1 accepts 20.0 % [10.0, 30.0] (n=400) of the sneaky mistakes of round 0"
        in statement.text
    )
    assert words in statement.text


def test_one_round_has_no_later_verifier(run):
    assert not [
        s for s in write_verdict(replace(run, rounds=run.rounds[:1])) if s.subject.startswith("Later verifier")
    ]


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
    assert statement.text == (
        "In training, sneaky mistakes scored as high as helpful correct solutions, within the margin of the stop rules: in round 0 "
        "from step 31 (of at most 40); not in round 1 within 50 steps, with a score gap of 1.23 left."
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
