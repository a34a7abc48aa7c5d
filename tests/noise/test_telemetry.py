import json

import pytest

from pvg_hf.core.roles import SPURIOUS
from pvg_hf.noise import ImperfectChecker, Ledger, Routes, Routing, Tier
from pvg_hf.noise.imperfect_checker import recall_outcomes
from pvg_hf.noise.telemetry import count_calls, digest_events, escalation_rates, noise_rates, read_events
from pvg_hf.noise.verdicts import Verdict

ROUTING = Routing((Tier("quick", 0.3, 0.2, 0.1), Tier("slow", 0.1, 0.1, 0.1)), "on_failure", "quick")


def call_checker(number: int = 300, *, order=1, seed: int = 0, **options):
    """Outcomes of the calls, and their events."""
    lines: list[str] = []
    routes = Routes(ROUTING, slice_by="level")
    checker = ImperfectChecker(None, routes, seed=seed, write=lines.append, **options)
    questions = [(index, is_correct) for index in range(number) for is_correct in (True, False)][::order]
    outcomes = {
        (index, is_correct): checker.check(
            {"problem_id": str(index), "level": index % 2}, str(is_correct), verdict=Verdict(is_correct)
        )
        for index, is_correct in questions
    }
    return outcomes, [json.loads(line) for line in lines]


def test_counts_are_those_of_the_outcomes():
    outcomes, events = call_checker()
    counts = count_calls(events)
    calls = [(call, truth) for (_, truth), outcome in outcomes.items() for call in outcome.calls]
    assert counts.num_calls == len(calls) == len(events)
    assert counts.cost == sum(outcome.cost for outcome in outcomes.values())
    assert counts.duration_ms == sum(outcome.duration_ms for outcome in outcomes.values())
    for tier in ("quick", "slow"):
        of_tier = [(call.noise, truth) for call, truth in calls if call.tier == tier]
        for noise, trials in (
            ("timeout", of_tier),
            ("spurious_fail", [pair for pair in of_tier if pair[1]]),
            ("spurious_pass", [pair for pair in of_tier if not pair[1]]),
        ):
            places = [(noise, tier, of_slice) for of_slice in ("0", "1")]
            assert sum(counts.trials[place] for place in places) == len(trials)
            assert sum(counts.injected[place] for place in places) == sum(found == noise for found, _ in trials) > 0
    further = [outcome for outcome in outcomes.values() if outcome.attempts == 2]
    assert counts.escalations == {"quick->slow": len(further)}
    assert counts.successes == {"quick->slow": sum(outcome.success for outcome in further)}
    assert counts.num_abstentions == sum(outcome.label is None for outcome in outcomes.values())
    assert counts.num_flagged == sum(outcome.code in SPURIOUS for outcome in outcomes.values())


VERDICTS = {
    "correct": Verdict(True),
    "correct, late": Verdict(True, seconds=3),
    "incorrect": Verdict(False),
    "incorrect, late": Verdict(False, seconds=3),
    "hang": Verdict(None, seconds=3),
    "error": Verdict(None, error="RuntimeError: no such lemma"),
}


def test_rates_are_of_the_calls_that_had_a_verdict_in_time():
    lines: list[str] = []
    tier = Tier("quick", timeout=0.2, spurious_fail=0.3, spurious_pass=0.1, budget_seconds=1)
    checker = ImperfectChecker(None, tier, write=lines.append)
    for index in range(1000):
        for text, verdict in VERDICTS.items():
            checker.check({"problem_id": str(index)}, text, verdict=verdict)
    counts = count_calls(json.loads(line) for line in lines)
    for noise, rate, trials in (("timeout", 0.2, 6000), ("spurious_fail", 0.3, 1000), ("spurious_pass", 0.1, 1000)):
        place = (noise, "quick", "all")
        assert counts.trials[place] == trials
        # five standard deviations of a binomial share
        assert counts.injected[place] / trials == pytest.approx(rate, abs=5 * (rate * (1 - rate) / trials) ** 0.5)


def test_equal_texts_count_as_one_trial():
    _, events = call_checker(50)
    once, twice = count_calls(events), count_calls([*events, *events])
    assert (once.trials, once.injected) == (twice.trials, twice.injected)
    assert 2 * once.num_calls == twice.num_calls


def test_the_digest_is_that_of_equal_runs_in_any_order():
    digest = digest_events(call_checker()[1])
    assert digest == digest_events(call_checker(order=-1)[1]) == count_calls(call_checker()[1]).digest
    assert len(digest) == 64
    others = [
        call_checker(seed=1)[1],
        call_checker(299)[1],
        [{**event, "code": "VERIFIED"} for event in call_checker()[1]],
    ]
    assert len({digest, *map(digest_events, others)}) == 4
    slower = [{**event, "duration_ms": event["duration_ms"] + 1} for event in call_checker()[1]]
    assert digest_events(slower) == digest


def test_calls_over_budget_are_not_counted_as_trials():
    _, events = call_checker(10, ledger=Ledger(total=5))
    counts = count_calls(events)
    assert counts.num_calls == 5
    assert counts.codes["BUDGET_EXHAUSTED"] == counts.num_abstentions - counts.codes["VERIFIER_TIMEOUT"] > 10
    assert sum(number for place, number in counts.trials.items() if place[0] == "timeout") == 5


def test_outcomes_are_read_back_from_their_events():
    outcomes, events = call_checker(40, ledger=Ledger(total=70))
    known = recall_outcomes(events)
    assert set(known.values()) == set(outcomes.values())
    assert len(known) == len(outcomes)


def test_other_lines_of_a_log_are_skipped(tmp_path):
    _, events = call_checker(3)
    lines = [json.dumps(event) for event in [{"event": "alert"}, *events]]
    (tmp_path / "events.jsonl").write_text("\n".join(lines))
    assert list(read_events(tmp_path / "events.jsonl")) == events


def test_no_events_give_no_figures():
    counts = count_calls([])
    assert (counts.num_calls, counts.digest) == (0, "0" * 64)


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
    of_quick = {one.noise: one for one in rates if one.tier == "quick"}
    assert {noise: figure.n for noise, figure in of_quick.items()} == {
        "spurious_fail": 1000,
        "spurious_pass": 500,
        "timeout": 1500,
    }
    for one in rates:
        # five standard deviations of a binomial
        bound = 5 * (one.configured * (1 - one.configured) / one.n) ** 0.5
        assert one.value == pytest.approx(one.configured, abs=bound)
        assert one.low <= one.value <= one.high
    assert json.dumps([one.to_dict() for one in rates])


def test_escalations_by_transition(counts):
    rates = escalation_rates(counts)
    timeouts = counts.injected["timeout", "quick", "all"]
    assert {name: figure.n for name, figure in rates.items()} == {"quick->slow": timeouts}
    # of the solutions that timed out two in three are correct; the slow tier accepts .85 of these, and .02 of the
    # others
    expected = (2 * 0.85 + 0.02) / 3
    assert rates["quick->slow"].value == pytest.approx(expected, abs=5 * (0.25 / timeouts) ** 0.5)
