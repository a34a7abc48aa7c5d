import json

import pytest

from pvg_hf.noise import ImperfectChecker, Routing, Tier
from pvg_hf.noise.observed_rates import escalation_rates, noise_rates
from pvg_hf.noise.telemetry import count_calls
from pvg_hf.noise.verdicts import Verdict

QUICK, SLOW = Tier("quick", 0.3, 0.2, 0.1), Tier("slow", 0.1, 0.05, 0.02)


@pytest.fixture(scope="module")
def counts():
    lines: list[str] = []
    checker = ImperfectChecker(None, Routing((QUICK, SLOW), "on_timeout", "quick"), write=lines.append)
    for index in range(1500):
        checker.check({"problem_id": str(index)}, "text", verdict=Verdict(index % 3 > 0))
    return count_calls(map(json.loads, lines))


def test_measured_rates_are_next_to_configured_ones(counts):
    rates = noise_rates(counts, {("quick", "all"): QUICK, ("slow", "all"): SLOW})
    assert [(one.noise, one.tier, one.configured) for one in rates] == [
        ("spurious_fail", "quick", 0.2),
        ("spurious_fail", "slow", 0.05),
        ("spurious_pass", "quick", 0.1),
        ("spurious_pass", "slow", 0.02),
        ("timeout", "quick", 0.3),
        ("timeout", "slow", 0.1),
    ]
    of_quick = {one.noise: one.figure for one in rates if one.tier == "quick"}
    assert {noise: figure.n for noise, figure in of_quick.items()} == {
        "spurious_fail": 1000,
        "spurious_pass": 500,
        "timeout": 1500,
    }
    for one in rates:
        # five standard deviations of a binomial
        bound = 5 * (one.configured * (1 - one.configured) / one.figure.n) ** 0.5
        assert one.figure.value == pytest.approx(one.configured, abs=bound)
        assert one.figure.low <= one.figure.value <= one.figure.high
    assert json.dumps([one.to_dict() for one in rates])


def test_escalations_by_transition(counts):
    rates = escalation_rates(counts)
    timeouts = counts.injected["timeout", "quick", "all"]
    assert {name: figure.n for name, figure in rates.items()} == {"quick->slow": timeouts}
    # of the solutions that timed out two in three are correct; the slow tier accepts .85 of these, and .02 of the others
    expected = (2 * 0.85 + 0.02) / 3
    assert rates["quick->slow"].value == pytest.approx(expected, abs=5 * (0.25 / timeouts) ** 0.5)
