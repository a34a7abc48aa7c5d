"""Verdicts of a routed checker, from the first tier to the last."""

from dataclasses import replace

import pytest

from pvg_hf.noise import DEFAULT_TIERS, Duration, ImperfectChecker, Routing, routed_channel
from pvg_hf.noise.verdicts import Verdict

NUM_CALLS = 10_000
POLICIES = ("never", "on_timeout", "on_failure", "always")
# Rates so high that every way through the tiers is taken often.
ROUGH = tuple(
    replace(tier, timeout=0.3, spurious_fail=0.2 / (index + 1), spurious_pass=0.15 / (index + 1))
    for index, tier in enumerate(DEFAULT_TIERS.values())
)


def bound(rate: float, number: int) -> float:
    """Five standard deviations of a binomial share, and one check more, for rates near 0."""
    return 5 * (rate * (1 - rate) / number) ** 0.5 + 1 / number


def test_on_failure_accepts_more_wrong_solutions_than_the_fast_tier_alone():
    """By hand: .02 + .98 * .01 + .98 * .99 * .001, as each further tier may err once more."""
    routed = routed_channel(Routing(escalation_policy="on_failure"))
    assert routed.false_accept == pytest.approx(0.02 + 0.98 * 0.01 + 0.98 * 0.99 * 0.001)
    assert routed.false_accept > routed_channel(Routing(start="fast_noisy")).false_accept == pytest.approx(0.02)
    # and rejects right ones only where the first two tiers failed in some way and the last one rejects
    assert routed.false_reject == pytest.approx(0.15 * 0.07 * 0.005)
    assert routed.correct.abstain == pytest.approx(0.15 * 0.07 * 0.01)


def test_a_single_tier_is_its_own_channel():
    channel = routed_channel(Routing())
    assert (channel.false_accept, channel.false_reject) == pytest.approx((0.01, 0.02))
    assert channel.correct.abstain == channel.incorrect.abstain == pytest.approx(0.05)
    assert channel.label_rates == pytest.approx((0.01 / 0.95, 0.02 / 0.95))
    assert channel.correct.duration_ms == pytest.approx(0.05 * 60_000)


def test_only_the_last_tier_counts_if_all_are_asked():
    channel = routed_channel(Routing(escalation_policy="always"))
    assert (channel.false_accept, channel.false_reject) == pytest.approx((0.001, 0.005))
    assert (channel.correct.num_calls, channel.correct.cost) == pytest.approx((3, 7))


def test_a_budget_turns_verdicts_into_abstentions():
    """Two calls are within the budget and the third is not: a solution that needs it gets no label."""
    channel = routed_channel(Routing(escalation_policy="on_failure", budget=3))
    assert channel.correct.abstain == pytest.approx(0.15 * 0.07)
    assert channel.false_reject == 0
    assert channel.incorrect.abstain == pytest.approx(0.98 * 0.99)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("options", [{}, {"max_attempts": 2}, {"start": "balanced"}, {"budget": 3.5}])
def test_the_closed_form_matches_simulated_checks(policy, options):
    duration = Duration("uniform", min_ms=1000, max_ms=40_000)
    routing = Routing(tuple(replace(tier, timeout_duration=duration) for tier in ROUGH), policy, **options)
    channel, checker = routed_channel(routing), ImperfectChecker(None, routing, seed=1)
    for is_correct, ending in ((True, channel.correct), (False, channel.incorrect)):
        number = NUM_CALLS // 2
        outcomes = [
            checker.check({"problem_id": str(index)}, "text", verdict=Verdict(is_correct)) for index in range(number)
        ]
        shares = {label: sum(outcome.label is label for outcome in outcomes) / number for label in (1, 0, None)}
        for label, expected in ((1, ending.accept), (0, ending.reject), (None, ending.abstain)):
            assert shares[label] == pytest.approx(expected, abs=bound(expected, number))
        assert ending.accept + ending.reject + ending.abstain == pytest.approx(1)
        # a check makes 1 to 3 calls, costs 1 to 7 and waits up to 120 s: five standard errors of what lies in such a
        # range
        for name, largest in (("attempts", 3), ("cost", 7), ("duration_ms", 100_000)):
            mean = sum(getattr(outcome, name) for outcome in outcomes) / number
            expected = ending.num_calls if name == "attempts" else vars(ending)[name]
            assert mean == pytest.approx(expected, abs=5 * largest / 2 / number**0.5)


@pytest.mark.parametrize("policy", POLICIES)
def test_labels_of_the_channel_can_be_made_unbiased(policy):
    """
    With (rho0, rho1) of the labels that are given, u = (y - rho0) / (1 - rho0 - rho1) has the truth as its mean, for
    checks that are independent given the truth and abstain at a rate that may depend on it (formulas, sec. 1).
    """
    routing = Routing(ROUGH, policy)
    rho0, rho1 = routed_channel(routing).label_rates
    checker, scale = ImperfectChecker(None, routing, seed=2), 1 / (1 - rho0 - rho1)
    for is_correct, rate in ((True, rho1), (False, rho0)):
        labels = [
            outcome.label
            for index in range(NUM_CALLS)
            if (outcome := checker.check({"problem_id": str(index)}, "x", verdict=Verdict(is_correct))).label
            is not None
        ]
        mean = sum(scale * (label - rho0) for label in labels) / len(labels)
        assert mean == pytest.approx(float(is_correct), abs=scale * bound(rate, len(labels)))


def test_a_budget_below_the_first_call_leaves_no_label_to_correct():
    channel = routed_channel(Routing(budget=1))
    assert channel.correct.abstain == 1
    with pytest.raises(ValueError, match="abstains"):
        _ = channel.label_rates
