import math

import pytest

from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.sections import StoppingConfig
from pvg_hf.core.extensions import ExtensionError
from pvg_hf.trainers.prover.stopping import ParityClock, StopRule


def is_over(rule: StopRule, step: int, line: dict[str, float]) -> bool:
    """Whether the rule ends the phase, in which case it says so."""
    reason = rule.update(step, line)
    assert reason in (None, f"{rule.name} at step {step}")
    return reason is not None


def make_rule(rule="parity", *, reward="src", num_steps=10, fixed=None, parity_confidence=0.5, **stopping) -> StopRule:
    """A rule that goes by the means alone, unless a confidence is given."""
    config = StoppingConfig(rule=rule, parity_confidence=parity_confidence, **stopping)
    return StopRule(config, ProverConfig(reward=reward, max_steps=num_steps), fixed)


def figures(helpful_correct=None, sneaky_incorrect=None, sneaky=0.5, helpful=0.5, failed=0.0) -> dict[str, float]:
    cells = {
        "score/helpful_correct": helpful_correct,
        "score/sneaky_incorrect": sneaky_incorrect,
        "accuracy/helpful": helpful,
        "accuracy/sneaky": sneaky * (1 - failed),
        "judged_accuracy/sneaky": sneaky if failed < 1 else None,
        "failed/sneaky": failed,
        "loss": 1.0,
    }
    return {key: value for key, value in cells.items() if value is not None}


def test_means_start_at_the_first_value_and_weigh_the_newest():
    rule = make_rule(ema=0.25)
    for value in (2.0, 4.0, -2.0):
        rule.update(1, figures(helpful_correct=value))
    # 2; then 0.75 * 2 + 0.25 * 4 = 2.5; then 0.75 * 2.5 - 0.25 * 2 = 1.375
    assert rule.means["score/helpful_correct"] == pytest.approx(1.375)


def test_cell_without_a_solution_keeps_its_mean():
    rule = make_rule(ema=0.5)
    rule.update(1, figures(helpful_correct=2.0, sneaky_incorrect=0.0))
    rule.update(2, figures(sneaky_incorrect=1.0))
    assert rule.means["score/helpful_correct"] == 2.0
    assert rule.means["score/sneaky_incorrect"] == 0.5


@pytest.mark.parametrize(("num_steps", "weight"), [(100, 0.05), (20, 0.25), (4, 1.0)])
def test_newest_step_weighs_five_in_the_planned_steps_by_default(num_steps, weight):
    assert make_rule(num_steps=num_steps).weight == pytest.approx(weight)


@pytest.mark.parametrize(
    ("sneaky_incorrect", "is_done"), [(0.89, False), (0.9, True), (1.5, True)], ids=["below", "at the margin", "above"]
)
def test_parity_is_a_sneaky_score_within_the_margin_of_the_helpful_one(sneaky_incorrect, is_done):
    assert is_over(make_rule(), 5, figures(helpful_correct=1.0, sneaky_incorrect=sneaky_incorrect)) == is_done


def test_parity_goes_by_the_smoothed_means():
    """Means of sneaky incorrect: 0, then .5 * 0 + .5 * 1.6 = .8, then .5 * .8 + .5 * 1 = .9, the helpful 1 - .1."""
    rule = make_rule(ema=0.5)
    done = [is_over(rule, step, figures(1.0, value)) for step, value in ((2, 0.0), (3, 1.6), (4, 1.0))]
    assert done == [False, False, True]


def judged(sneaky_incorrect: float, number: int = 2) -> dict[str, float]:
    """Figures of a step of the sneaky role alone."""
    return figures(None, sneaky_incorrect, helpful=None) | {"num_scored/sneaky_incorrect": number}


@pytest.mark.parametrize(
    ("score", "error", "number", "is_done"),
    [(1.3, 0.3, 20, False), (1.4, 0.3, 20, True), (1.4, 0.3, 9, False), (1.4, None, 20, False), (0.9, 0.0, 10, True)],
    ids=["within the error", "beyond it", "too few helpful ones", "one problem", "no error"],
)
def test_parity_asks_for_the_lower_bound_of_the_difference(score, error, number, is_done):
    """One-sided at 95 %: 1.645 errors of .3 are .49, so that 1.4 is surely above 1 - .1, and 1.3 is not."""
    side = {"score/helpful_correct": 1.0, "error/helpful_correct": error, "num_scored/helpful_correct": number}
    fixed = {key: value for key, value in side.items() if value is not None}
    rule = make_rule(fixed=fixed, parity_confidence=0.95)
    done = [is_over(rule, step, judged(score)) for step in range(1, 6)]
    assert done == [False] * 4 + [is_done]  # five steps give an error, and their 10 solutions are enough


def test_parity_is_not_decided_by_one_step_and_two_solutions():
    """The first step of a game in which .430 stood against a mean of .413."""
    fixed = {"score/helpful_correct": 0.413, "error/helpful_correct": 0.01, "num_scored/helpful_correct": 2}
    rule = make_rule(num_steps=1, fixed=fixed, parity_confidence=0.95)
    assert not is_over(rule, 1, judged(0.43, 30))
    assert is_over(make_rule(num_steps=1, fixed=fixed), 1, judged(0.43, 30))


def test_parity_needs_ten_sneaky_solutions():
    fixed = {"score/helpful_correct": 0.0, "error/helpful_correct": 0.0, "num_scored/helpful_correct": 99}
    rule = make_rule(fixed=fixed, parity_confidence=0.95)
    done = [is_over(rule, step, judged(5.0, number)) for step, number in enumerate((1, 2, 2, 2, 2, 1), 1)]
    assert done == [False] * 5 + [True]  # after 9 solutions, and after 10


def test_the_error_of_a_smoothed_mean_is_that_of_neighbouring_steps():
    """
    Each difference of 2 adds 2 to the variation, so that a step has the variance 2; the squared weights of five steps
    sum to .336: 1, .25 + .25 = .5, .125 + .25 = .375, .344, .336.
    """
    rule = make_rule(ema=0.5)
    for step, value in enumerate((0.0, 2.0, 0.0, 2.0, 0.0), 1):
        assert rule.means.get("error/sneaky_incorrect", math.inf) == math.inf
        rule.update(step, judged(value, 3))
    assert rule.means["error/sneaky_incorrect"] == pytest.approx(math.sqrt(2 * 0.3359375))
    assert rule.means["num_scored/sneaky_incorrect"] == 15


@pytest.mark.parametrize("missing", ["score/helpful_correct", "score/sneaky_incorrect"])
def test_parity_waits_for_both_sides(missing):
    step = figures(1.0, 2.0)
    del step[missing]
    assert not is_over(make_rule(), 5, step)


def test_no_rule_fires_in_the_first_tenth():
    rule = make_rule(num_steps=30)
    done = [is_over(rule, step, figures(0.0, 1.0)) for step in range(1, 6)]
    assert done == [False, False, False, True, True]


def test_the_fixed_side_replaces_the_untrained_role():
    rule = make_rule(fixed={"score/helpful_correct": 1.0})
    assert not is_over(rule, 5, figures(sneaky_incorrect=0.5, helpful=None))
    assert is_over(rule, 6, figures(sneaky_incorrect=5.0, helpful=None))


@pytest.mark.parametrize(("accuracy", "is_done"), [(0.06, False), (0.05, True), (0.0, True)])
def test_parity_and_incorrect_asks_for_a_nearly_always_incorrect_role_too(accuracy, is_done):
    rule = make_rule("parity_and_incorrect")
    assert is_over(rule, 5, figures(1.0, 1.0, sneaky=accuracy)) == is_done
    assert not is_over(rule, 6, figures(1.0, -99.0, sneaky=accuracy))


@pytest.mark.parametrize(("failed", "is_done"), [(0.4, True), (0.5, False), (0.95, False), (1.0, False)])
def test_parity_and_incorrect_ignores_a_role_that_stopped_answering(failed, is_done):
    """
    All answered solutions are incorrect, and have the scores of helpful ones; at .5 they are no longer the majority.
    """
    rule = make_rule("parity_and_incorrect")
    assert is_over(rule, 5, figures(1.0, 1.0, sneaky=0.0, failed=failed)) == is_done


def test_failed_solutions_do_not_make_a_role_nearly_always_incorrect():
    """Correct are .046 of all solutions, but .09 of those that answer, above the .05 allowed."""
    assert not is_over(make_rule("parity_and_incorrect"), 5, figures(1.0, 1.0, sneaky=0.09, failed=0.49))


def test_goodhart_needs_a_whole_window_of_low_accuracy():
    """The mean over both roles: .1 and .29 give .195, below .2; .31 in place of .29 gives .205."""
    low, high = figures(helpful=0.29, sneaky=0.1), figures(helpful=0.31, sneaky=0.1)
    rule = make_rule("goodhart", num_steps=100, goodhart_window=80)
    assert [is_over(rule, step, low) for step in range(1, 81)] == [False] * 79 + [True]
    rule = make_rule("goodhart", num_steps=100, goodhart_window=80)
    assert [is_over(rule, step, high) for step in range(1, 81)] == [False] * 80


def test_goodhart_looks_at_the_last_window_only():
    rule = make_rule("goodhart", num_steps=300, goodhart_window=80)
    done = [is_over(rule, step, figures(helpful=1.0, sneaky=1.0)) for step in range(1, 41)]
    done += [is_over(rule, step, figures(helpful=0.0, sneaky=0.0)) for step in range(41, 121)]
    # The mean of the last 80 is below .2 when fewer than 16 of them are of the first 40, that is from step 105 on.
    assert done.index(True) == 104


@pytest.mark.parametrize(
    ("num_steps", "first"),
    [(60, 7), (55, 6), (8, 1), (800, 81), (2000, 201)],
    ids=["6 steps", "a tenth, rounded up", "one step", "80 steps", "80 steps after the first tenth"],
)
def test_goodhart_averages_over_a_tenth_of_the_phase_by_default(num_steps, first):
    """Always incorrect: the rule fires in the first step with a whole window that is past the first tenth."""
    rule = make_rule("goodhart", num_steps=num_steps)
    done = [is_over(rule, step, figures(helpful=0.0, sneaky=0.0)) for step in range(1, num_steps + 1)]
    assert done.index(True) + 1 == first


def test_goodhart_counts_the_batches_of_ppo():
    """60 steps of 4 epochs are 15 batches; a tenth of them, rounded up, are 2."""
    prover = ProverConfig(reward="goodhart", algorithm="ppo", max_steps=60)
    rule = StopRule(StoppingConfig(), prover)
    assert [is_over(rule, step, figures(helpful=0.0, sneaky=0.0)) for step in (1, 5, 9)] == [False, False, True]


def test_goodhart_window_longer_than_the_phase_is_refused():
    make_rule("goodhart", num_steps=60, goodhart_window=60)
    make_rule("parity", num_steps=60, goodhart_window=80)  # another rule does not use it
    with pytest.raises(ValueError, match=r"`stopping\.goodhart_window` is 80.* 60 batches"):
        make_rule("auto", reward="goodhart", num_steps=60, goodhart_window=80)
    with pytest.raises(ValueError, match=r"15 batches"):
        StopRule(StoppingConfig(goodhart_window=16), ProverConfig(reward="goodhart", algorithm="ppo", max_steps=60))


def test_max_steps_never_fires():
    assert not any(is_over(make_rule("max_steps"), step, figures(0.0, 9.0, sneaky=0.0)) for step in range(1, 11))


@pytest.mark.parametrize(
    ("reward", "name"),
    [
        ("src", "parity"),
        ("standardized_src", "parity"),
        ("cgc", "parity_and_incorrect"),
        ("goodhart", "goodhart"),
        ("correctness_only", "max_steps"),
        ("tests.support.own_rules:scaled_score", "max_steps"),
        ("tests.support.own_rules:above_the_group", "parity"),
        ("pvg_hf.rewards:signed_relative_convincingness", "parity"),
    ],
)
def test_auto_selects_the_rule_of_the_reward(reward, name):
    assert make_rule("auto", reward=reward).name == name


def test_a_log_line_that_is_not_a_step_is_skipped():
    rule = make_rule()
    assert not is_over(rule, 5, {"train_runtime": 1.0})
    assert rule.means == {}


def test_a_custom_rule_sees_means_and_thresholds():
    rule = make_rule("tests.support.own_rules:below_own_threshold", ema=0.5, score_parity_threshold=0.75)
    assert not is_over(rule, 5, figures(helpful_correct=2.0))
    assert is_over(rule, 6, figures(helpful_correct=-1.0))  # 1 - .5 = .5 by the mean of 2 and -1


def test_custom_rule_gets_the_step_and_its_options():
    rule = make_rule("tests.support.own_rules:after_patience", options={"patience": 4})
    assert [is_over(rule, step, figures(1.0)) for step in range(1, 6)] == [False, False, False, True, True]


def test_custom_rule_that_fails_in_a_phase_is_named_with_its_step():
    rule = make_rule("tests.support.own_rules:fails_late")
    assert not is_over(rule, 3, figures(1.0))
    with pytest.raises(
        ExtensionError,
        match=r"`tests.support.own_rules:fails_late` \(`stopping\.rule`\), .*step 5.*own_rules\.py, line",
    ):
        rule.update(5, figures(1.0))


@pytest.mark.parametrize(
    ("rule", "options", "parts"),
    [
        ("parity", {"patience": 3}, ["`parity`", "`stopping.options`"]),
        ("tests.support.own_rules:after_patience", {}, ["(means, config, *, patience)", "'patience'"]),
        ("tests.support.own_rules:after_patience", {"patience": 3, "margin": 1}, ["'margin'"]),
        ("collections:deque", {}, ["is a class", "(means, config, **options) -> bool"]),
        ("math:pi", {}, ["is a float"]),
    ],
)
def test_options_must_fit_the_rule(rule, options, parts):
    with pytest.raises(ValueError) as caught:
        make_rule(rule, options=options)
    assert [part for part in parts if part not in str(caught.value)] == []


def test_unknown_rule_is_refused_with_the_closest():
    with pytest.raises(ValueError, match=r"stop rule `partiy`\. .*`parity`\?.*package\.module:Name"):
        make_rule("partiy")


def make_clock(*, fixed=None, **stopping) -> ParityClock:
    return ParityClock(StoppingConfig(parity_confidence=0.5, **stopping), ProverConfig(max_steps=10), fixed)


@pytest.mark.parametrize("rule", ["max_steps", "parity_and_incorrect", "tests.support.own_rules:after_patience"])
def test_parity_is_recorded_whatever_the_rule(rule):
    """Sneaky means, with half the weight on the newest: 0, .8, .9 (parity, 1 - .1), .45, .725."""
    options = {"patience": 3} if "own_rules" in rule else {}
    clock = make_clock(rule=rule, ema=0.5, options=options)
    for step, value in ((2, 0.0), (3, 1.6), (4, 1.0), (5, 0.0), (6, 1.0)):
        clock.update(step, figures(1.0, value))
    assert clock.figures() == {"parity_step": 4, "parity_num_steps": 6, "parity_gap": pytest.approx(0.275)}


def test_parity_that_was_not_reached_has_no_step():
    clock = make_clock(fixed={"score/helpful_correct": 2.0})
    for step in range(1, 11):
        clock.update(step, figures(None, 0.5))
    assert clock.figures() == {"parity_num_steps": 10, "parity_gap": 1.5}


def test_parity_needs_both_sides():
    clock = make_clock()
    clock.update(5, figures(None, 0.5))
    assert clock.figures() == {"parity_num_steps": 5}
