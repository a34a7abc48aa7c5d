"""An imperfect checker: errors, timeouts, abstentions, routing and budgets."""

import json
import sys
import time
from dataclasses import FrozenInstanceError

import pytest

from pvg_hf.core.extensions import ExtensionError
from pvg_hf.core.roles import SPURIOUS, Outcome
from pvg_hf.noise import (
    DEFAULT_TIERS,
    Duration,
    ImperfectChecker,
    Ledger,
    RealClock,
    Routes,
    Routing,
    Tier,
    VirtualClock,
)
from pvg_hf.noise.verdicts import Verdict

NUM_CALLS = 10_000
FAST, BALANCED, SLOW = DEFAULT_TIERS.values()
ALWAYS_LATE = Tier("late", timeout=0.999, budget_seconds=5, cost=2)


def is_right(problem, solution):
    return solution.startswith("right")


def problem(index: int = 0, **columns) -> dict:
    return {"problem_id": f"p{index}", **columns}


def check_many(checker: ImperfectChecker, solution: str, number: int = NUM_CALLS, **options) -> list:
    return [checker.check(problem(index), solution, **options) for index in range(number)]


def bound(rate: float, number: int) -> float:
    """Five standard deviations of a binomial share, and one call more, for rates near 0."""
    return 5 * (rate * (1 - rate) / number) ** 0.5 + 1 / number


@pytest.mark.parametrize("tier", DEFAULT_TIERS.values(), ids=lambda tier: tier.name)
@pytest.mark.parametrize(
    ("solution", "false", "code"),
    [
        ("right", "spurious_fail", Outcome.VERIFIER_SPURIOUS_FAIL),
        ("wrong", "spurious_pass", Outcome.VERIFIER_SPURIOUS_PASS),
    ],
)
def test_calls_err_at_the_rates_of_their_tier(tier, solution, false, code):
    outcomes = check_many(ImperfectChecker(is_right, tier, seed=3), solution)
    for name, its_code, rate in (
        ("timeout", Outcome.VERIFIER_TIMEOUT, tier.timeout),
        (false, code, vars(tier)[false]),
    ):
        found = [outcome for outcome in outcomes if outcome.code == its_code]
        assert {outcome.noise for outcome in found} <= {name}
        assert len(found) / NUM_CALLS == pytest.approx(rate, abs=bound(rate, NUM_CALLS))
    true = Outcome.VERIFIED if solution == "right" else Outcome.PROOF_INVALID
    assert {outcome.code for outcome in outcomes} == {Outcome.VERIFIER_TIMEOUT, code, true}


@pytest.mark.parametrize(
    ("code", "success", "label", "is_flagged"),
    [
        ("VERIFIED", True, 1, False),
        ("PROOF_INVALID", False, 0, False),
        ("VERIFIER_SPURIOUS_FAIL", False, 0, True),
        ("VERIFIER_SPURIOUS_PASS", True, 1, True),
        ("VERIFIER_TIMEOUT", False, None, False),
    ],
)
def test_an_outcome_keeps_its_claim_and_the_truth(code, success, label, is_flagged):
    checker = ImperfectChecker(is_right, FAST)
    outcomes = [*check_many(checker, "right", 500), *check_many(checker, "wrong", 500)]
    found = [outcome for outcome in outcomes if outcome.code == code]
    assert found
    for outcome in found:
        assert (outcome.success, outcome.label, outcome.code in SPURIOUS) == (success, label, is_flagged)
        assert outcome.tier == "fast_noisy"
        assert outcome.attempts == 1
        assert outcome.truth == (outcomes.index(outcome) < 500) or code == "VERIFIER_TIMEOUT"


def test_without_a_base_each_question_needs_its_verdict():
    with pytest.raises(ValueError, match=r"no `base` to ask"):
        ImperfectChecker().check(problem(), "right")
    assert ImperfectChecker().check(problem(), "right", verdict=Verdict(True)).truth is True


def test_an_outcome_is_immutable():
    with pytest.raises(FrozenInstanceError):
        ImperfectChecker(is_right).check(problem(), "right").code = Outcome.VERIFIED


def test_an_outcome_depends_only_on_the_question():
    questions = [(index, text, k) for index in range(60) for text in ("right", "wrong") for k in (-1, 0, 1)]

    def answers(order):
        checker = ImperfectChecker(is_right, Routing(escalation_policy="on_timeout"), seed=5)
        told = {
            question: checker.check(problem(question[0]), question[1], round_index=question[2]) for question in order
        }
        return [told[question] for question in questions]

    reference = answers(questions)
    assert answers(questions[::-1]) == reference
    assert answers([*questions[50:], *questions[:50], *questions]) == reference
    other_seed = ImperfectChecker(is_right, Routing(escalation_policy="on_timeout"), seed=6)
    assert [other_seed.check(problem(q[0]), q[1], round_index=q[2]) for q in questions] != reference


def test_rounds_and_attempts_have_their_own_draws():
    checker = ImperfectChecker(is_right, FAST)
    of_rounds = [[outcome.code for outcome in check_many(checker, "right", 300, round_index=k)] for k in (0, 1)]
    assert of_rounds[0] != of_rounds[1]
    tiers = tuple(Tier(name, timeout=0.5) for name in ("one", "two"))
    outcomes = check_many(ImperfectChecker(is_right, Routing(tiers, "always", "one")), "right", 2000)
    both = sum(all(call.noise == "timeout" for call in outcome.calls) for outcome in outcomes) / 2000
    assert both == pytest.approx(0.25, abs=bound(0.25, 2000))  # half of them if one draw decided both


def test_a_higher_rate_adds_errors_to_those_of_a_lower_one():
    rates = ({"timeout": 0.05, "spurious_fail": 0.05}, {"timeout": 0.2, "spurious_fail": 0.3})
    less, more = (check_many(ImperfectChecker(is_right, Tier("t", **values)), "right", 2000) for values in rates)
    assert all(more[i].noise == outcome.noise for i, outcome in enumerate(less) if outcome.noise)


def test_an_error_of_the_base_checker_is_an_abstention_with_its_text():
    def broken(problem, solution):
        raise RuntimeError("no such lemma")

    outcome = ImperfectChecker(broken, Tier("lean")).check(problem(), "right")
    assert (outcome.code, outcome.label, outcome.success) == (Outcome.VERIFIER_INTERNAL_ERROR, None, False)
    assert outcome.detail == "RuntimeError: no such lemma"
    assert (outcome.truth, outcome.noise) == (None, None)


@pytest.mark.parametrize("status", [0, 3, "no such prover"])
def test_a_base_checker_that_would_end_the_process_is_an_error(status):
    """This includes status 0, which is a pass for a command but not an answer of a function."""
    outcome = ImperfectChecker(lambda problem, solution: sys.exit(status), Tier("lean")).check(problem(), "right")
    assert (outcome.code, outcome.label) == (Outcome.VERIFIER_INTERNAL_ERROR, None)
    assert outcome.detail == f"SystemExit: {status}"


def test_ctrl_c_within_a_base_checker_is_passed_on():
    def interrupted(problem, solution):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ImperfectChecker(interrupted, Tier("lean")).check(problem(), "right")


def test_a_text_with_half_a_surrogate_pair_is_checked():
    """Lone surrogates reach the base checker, and an exception it raises for them is an error."""
    halves = ("right \ud83d", "right \ude00")
    lines: list[str] = []
    outcomes = [ImperfectChecker(is_right, Tier("lean"), write=lines.append).check(problem(), half) for half in halves]
    assert [outcome.code for outcome in outcomes] == [Outcome.VERIFIED] * 2
    assert len({json.loads(line)["solution"] for line in lines}) == 2

    def encodes(problem, solution):
        return bool(solution.encode())

    outcome = ImperfectChecker(encodes, Tier("lean")).check(problem(), halves[0])
    assert outcome.code == Outcome.VERIFIER_INTERNAL_ERROR
    assert outcome.detail.startswith("UnicodeEncodeError: ")


@pytest.mark.parametrize("answer", [None, 1, "True", 0.5])
def test_an_answer_that_is_not_a_boolean_is_an_error(answer):
    with pytest.raises(ExtensionError, match="must return True"):
        ImperfectChecker(lambda problem, solution: answer).check(problem(), "right")


@pytest.mark.parametrize(
    ("policy", "solution", "tiers"),
    [
        ("never", "wrong", ["balanced"]),
        ("on_failure", "right", ["fast_noisy"]),
        ("on_failure", "wrong", ["fast_noisy", "balanced", "slow_precise"]),
        ("on_timeout", "wrong", ["fast_noisy"]),
        ("always", "right", ["fast_noisy", "balanced", "slow_precise"]),
    ],
)
def test_the_policy_selects_the_next_tier(policy, solution, tiers):
    routing = Routing(escalation_policy=policy, noise_enabled=False)
    outcome = ImperfectChecker(is_right, routing).check(problem(), solution)
    assert [call.tier for call in outcome.calls] == tiers
    assert (outcome.attempts, outcome.cost) == (len(tiers), sum(DEFAULT_TIERS[name].cost for name in tiers))
    assert outcome.code == (Outcome.VERIFIED if solution == "right" else Outcome.PROOF_INVALID)


def test_after_a_timeout_the_next_tier_decides():
    routing = Routing((ALWAYS_LATE, Tier("precise")), "on_timeout", "late")
    outcome = ImperfectChecker(is_right, routing, seed=1).check(problem(), "right")
    assert [call.code for call in outcome.calls] == [Outcome.VERIFIER_TIMEOUT, Outcome.VERIFIED]
    assert (outcome.code, outcome.noise, outcome.duration_ms) == (Outcome.VERIFIED, None, 5000)


def test_attempts_and_start_bound_the_path():
    names = [[tier.name for tier in Routing(escalation_policy="always", **values).path] for values in (
        {"max_attempts": 2}, {"start": "balanced"}, {"start": "slow_precise"}
    )]  # fmt: skip
    assert names == [["fast_noisy", "balanced"], ["balanced", "slow_precise"], ["slow_precise"]]


def test_a_call_over_budget_is_not_made():
    routing = Routing(escalation_policy="always", budget=3, noise_enabled=False)
    outcome = ImperfectChecker(is_right, routing).check(problem(), "right")
    assert [call.code for call in outcome.calls] == [Outcome.VERIFIED, Outcome.VERIFIED, Outcome.BUDGET_EXHAUSTED]
    assert (outcome.code, outcome.label, outcome.attempts, outcome.cost) == (Outcome.BUDGET_EXHAUSTED, None, 2, 3)


def test_budgets_of_a_round_and_of_the_game_are_shared_by_all_solutions():
    checker = ImperfectChecker(is_right, Routing(noise_enabled=False), ledger=Ledger(per_round=6, total=10))
    codes = [[outcome.code for outcome in check_many(checker, "right", 4, round_index=k)] for k in (0, 1)]
    ok, out = Outcome.VERIFIED, Outcome.BUDGET_EXHAUSTED
    assert codes == [[ok, ok, ok, out], [ok, ok, out, out]]  # 3 calls of cost 2, then the 2 that the total leaves
    assert checker.check(problem(0), "right", round_index=0).code == ok  # which was paid for


def test_a_base_checker_is_not_called_over_budget():
    asked = []

    def note(problem, solution):
        asked.append(problem["problem_id"])
        return True

    checker = ImperfectChecker(note, Tier("lean", cost=2), ledger=Ledger(total=5))
    outcomes = check_many(checker, "right", 4)
    assert asked == ["p0", "p1"]
    assert [outcome.truth for outcome in outcomes] == [True, True, None, None]


@pytest.mark.parametrize("values", [{"per_round": 0}, {"total": -1}])
def test_a_budget_of_zero_is_an_error(values):
    with pytest.raises(ValueError, match=r"`(per_round|total)` is"):
        Ledger(**values)


def test_slices_and_critical_problems_have_their_own_route():
    noisy = Routing((Tier("balanced", spurious_pass=0.9), SLOW), "never")
    routes = Routes(noisy, slice_by="level", slices={"3": Routing(noise_enabled=False)}, critical="level >= 7")
    checker = ImperfectChecker(is_right, routes)
    tiers = {level: checker.check(problem(level=level), "wrong").tier for level in (1, 3, 7)}
    assert tiers == {1: "balanced", 3: "balanced", 7: "slow_precise"}
    passes = {
        level: sum(checker.check(problem(i, level=level), "wrong").success for i in range(200)) for level in (1, 3)
    }
    assert passes[3] == 0
    assert passes[1] / 200 == pytest.approx(0.9, abs=bound(0.9, 200))


@pytest.mark.parametrize(
    ("condition", "columns", "expected"),
    [
        ("hard", {"hard": True}, True),
        ("hard", {"hard": False}, False),
        ("level > 2", {"level": 3}, True),
        ("level==2", {"level": 3}, False),
        ("topic != 'algebra'", {"topic": "algebra"}, False),
        ("operator:truth", {}, True),
    ],
)
def test_conditions_select_critical_problems(condition, columns, expected):
    assert Routes(critical=condition).critical(problem(**columns)) is expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tier("t", timeout=1.0), "`timeout` .*`t` is 1.0"),
        (lambda: Tier("t", spurious_pass=-0.1), "`spurious_pass` .*`t` is -0.1"),
        (lambda: Tier("t", spurious_fail=0.6, spurious_pass=0.5), "sum to 1.1"),
        (lambda: Tier("t", budget_seconds=0), "`budget_seconds` .*`t` is 0"),
        (lambda: Tier("t", cost=0), "`cost` .*`t` is 0"),
        (lambda: Routing(start="balancd"), "tier `balancd`.*`balanced`"),
        (lambda: Routing(escalation_policy="alway"), "`escalation_policy` is `alway`.*Did you mean `always`"),
        (lambda: Routing(max_attempts=0), "`max_attempts` is 0"),
        (lambda: Routing(budget=0), "`budget` is 0"),
        (lambda: Routes(slices={"3": Routing()}), "no `slice_by`"),
        (lambda: Routes(critical="level more"), "condition `level more`"),
        (lambda: Routes(critical="math:pi"), "it must be a function"),
    ],
    ids=[
        "timeout 1",
        "negative spurious_pass",
        "spurious rates above 1",
        "budget_seconds 0",
        "cost 0",
        "unknown start",
        "unknown policy",
        "max_attempts 0",
        "budget 0",
        "slices without slice_by",
        "condition that cannot be read",
        "condition that is not a function",
    ],
)
def test_invalid_checker_settings_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_virtual_clock_counts_and_the_real_one_waits():
    late = Tier("late", timeout=0.999, timeout_duration=Duration("fixed", ms=40))
    virtual, real = VirtualClock(), RealClock()
    started = time.monotonic()
    outcomes = [ImperfectChecker(is_right, late, clock=clock).check(problem(), "right") for clock in (virtual, real)]
    assert [outcome.duration_ms for outcome in outcomes] == [40, 40]
    assert virtual.waited_ms == real.waited_ms == 40
    assert time.monotonic() - started >= 0.04


def test_the_real_clock_measures_what_an_answer_takes():
    def slow(problem, solution):
        time.sleep(0.02)
        return True

    real, virtual = (ImperfectChecker(slow, Tier("t"), clock=clock()) for clock in (RealClock, VirtualClock))
    assert real.check(problem(), "right").duration_ms >= 20
    assert virtual.check(problem(), "right").duration_ms == 0


def test_every_call_is_an_event():
    lines: list[str] = []
    routing = Routing(escalation_policy="on_failure")
    outcomes = check_many(
        ImperfectChecker(is_right, routing, seed=9, write=lines.append), 'wrong "\n', 100, round_index=2
    )
    events = [json.loads(line) for line in lines]
    assert len(events) == sum(outcome.attempts for outcome in outcomes) > 200
    calls = [call for outcome in outcomes for call in outcome.calls]
    for event, call in zip(events, calls, strict=True):
        assert (event["tier"], event["code"], event["noise"]) == (call.tier, call.code, call.noise)
        assert (event["duration_ms"], event["cost"]) == (call.duration_ms, call.cost)
        assert (event["event"], event["round"], event["truth"], event["slice"]) == ("check", 2, False, "all")
        assert event["seed_path"] == f"9/2/check/{event['solution']}/{event['attempt']}"
    assert [event["problem"] for event in events if event["attempt"] == 0] == [f"p{index}" for index in range(100)]
