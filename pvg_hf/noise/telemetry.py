"""
Events of a checker's calls as lines of a log, counts of them by tier and slice, and rates beside the configured ones.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from pvg_hf.core.figure import Figure, rate
from pvg_hf.core.roles import ABSTENTIONS, ACCEPTING, SPURIOUS, Outcome
from pvg_hf.noise.routing import Call, Tier
from pvg_hf.noise.verdicts import Verdict

EVENT = "check"

# Without durations, since a real clock never measures the same twice.
_DIGESTED = ("round", "problem", "solution", "slice", "attempt", "tier", "noise", "code", "truth", "cost", "seed_path")


class Asked(NamedTuple):
    """
    Subject of a checker's calls.

    Args:
        round_index: Round of the solution; -1 before the first round.
    """

    problem_id: str
    solution: int
    slice_name: str
    round_index: int
    step: int | None


def event_line(asked: Asked, call: Call, verdict: Verdict, attempt: int, seed: str, *, is_late: bool = False) -> str:
    """
    Format the event of a call as a line of JSON.

    Args:
        asked, call, verdict: The subject, the noisy result, and the verdict of the base checker.
        attempt, seed: See [`~pvg_hf.noise.draws.call_seed`].
        is_late: Whether the verdict takes longer than the tier's time budget, so that a timeout is the only possible
            result.
    """
    event = {
        "event": EVENT,
        "round": asked.round_index,
        "problem": str(asked.problem_id),
        "solution": f"{asked.solution:016x}",
        "slice": asked.slice_name,
        "attempt": attempt,
        "tier": call.tier,
        "noise": call.noise,
        "code": call.code,
        "truth": verdict.passed,
        "duration_ms": call.duration_ms,
        "cost": call.cost,
        "seed_path": seed,
    }
    event |= {} if asked.step is None else {"step": asked.step}
    event |= {"is_late": True} if is_late else {}
    event |= {"detail": verdict.error} if call.code == Outcome.VERIFIER_INTERNAL_ERROR else {}
    return json.dumps(event) + "\n"


def digest_events(events: Iterable[Mapping[str, Any]]) -> str:
    """
    Hash events without their durations, regardless of their order, for comparing two runs.

    Returns: the sum of the events' hashes, as 64 hexadecimal digits.
    """
    total = 0
    for event in events:
        text = json.dumps([event[name] for name in _DIGESTED])
        total += int.from_bytes(blake2b(text.encode(), digest_size=32).digest(), "big")
    return f"{total % (1 << 256):064x}"


NOISE_TYPES = ("timeout", "spurious_fail", "spurious_pass")


@dataclass
class CallCounts:
    """
    Counts of calls.

    Noise rates count every text of a problem once: equal texts have equal outcomes, so that they are not separate
    trials.

    Args:
        trials, injected: By `(noise, tier, slice)`: calls into which this noise could be injected, and into which it
            was.
        escalations, successes: By transition, e.g. `fast_noisy->balanced`: number of calls, and of those that
            accepted.
        codes: Outcomes of the solutions, i.e. of the last call about each.
        num_calls, cost, duration_ms: Totals over all calls.
    """

    trials: Counter = field(default_factory=Counter)
    injected: Counter = field(default_factory=Counter)
    escalations: Counter = field(default_factory=Counter)
    successes: Counter = field(default_factory=Counter)
    codes: Counter = field(default_factory=Counter)
    num_calls: int = 0
    cost: float = 0.0
    duration_ms: float = 0.0
    digest: str = ""

    @property
    def num_abstentions(self) -> int:
        return sum(self.codes[code] for code in ABSTENTIONS)

    @property
    def num_flagged(self) -> int:
        return sum(self.codes[code] for code in SPURIOUS)


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the calls of an event log in order."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if event["event"] == EVENT:
                yield event


def count_calls(events: Iterable[Mapping[str, Any]]) -> CallCounts:
    """Count the calls of an event log, in the order in which they were written: a solution's calls are consecutive."""
    counts = CallCounts()
    known: set[tuple[Any, ...]] = set()

    def count_all() -> Iterator[Mapping[str, Any]]:
        previous: Mapping[str, Any] | None = None
        for event in events:
            _count_call(counts, event, previous if event["attempt"] else None)
            # Attempt 0 begins a new solution, so the previous call was the last one about its solution.
            if previous is not None and not event["attempt"]:
                counts.codes[previous["code"]] += 1
            trial = (event["round"], event["solution"], event["attempt"])
            if event["code"] != Outcome.BUDGET_EXHAUSTED and trial not in known:
                known.add(trial)
                _count_trial(counts, event)
            previous = event
            yield event
        if previous is not None:
            counts.codes[previous["code"]] += 1

    counts.digest = digest_events(count_all())
    return counts


def _count_call(counts: CallCounts, event: Mapping[str, Any], previous: Mapping[str, Any] | None) -> None:
    counts.num_calls += event["code"] != Outcome.BUDGET_EXHAUSTED
    counts.cost += event["cost"]
    counts.duration_ms += event["duration_ms"]
    if previous is not None:
        transition = f"{previous['tier']}->{event['tier']}"
        counts.escalations[transition] += 1
        counts.successes[transition] += event["code"] in ACCEPTING


def _count_trial(counts: CallCounts, event: Mapping[str, Any]) -> None:
    """
    Count the noise that could have been injected into a call, and the noise that was.

    Any call can be made to time out. A call can be made to reject if the verdict is `correct` and comes in time. Calls
    with an injected timeout are included, as in the closed form of the channel, which ignores timeouts of the base
    checker.
    """
    verdict = None if event.get("is_late") else event["truth"]
    possible = {"timeout": True, "spurious_fail": verdict is True, "spurious_pass": verdict is False}
    for noise, is_possible in possible.items():
        if is_possible:
            place = (noise, event["tier"], event["slice"])
            counts.trials[place] += 1
            counts.injected[place] += event["noise"] == noise


@dataclass(frozen=True)
class NoiseRate(Figure):
    """
    Observed and configured rate of one kind of injected noise.

    Its `n` is the number of distinct solutions at one attempt: for timeouts, all of them; else those with the truth
    that the noise affects and a verdict in time.
    """

    noise: str  # `timeout`, `spurious_fail` or `spurious_pass`
    tier: str
    slice: str
    configured: float


def noise_rates(counts: CallCounts, configured: Mapping[tuple[str, str], Tier]) -> list[NoiseRate]:
    """Return the observed rate of each noise, in each tier and slice where it could be injected, sorted."""
    return [
        NoiseRate(
            **rate(counts.injected[place], trials).to_dict(),
            noise=noise,
            tier=tier,
            slice=of_slice,
            configured=vars(configured[tier, of_slice])[noise],
        )
        for place, trials in sorted(counts.trials.items())
        for noise, tier, of_slice in [place]
    ]


def escalation_rates(counts: CallCounts) -> dict[str, Figure]:
    """Return the share of escalated calls that accepted, by transition."""
    return {name: rate(counts.successes[name], number) for name, number in sorted(counts.escalations.items())}
