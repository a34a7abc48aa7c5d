"""What the events of checks come to: counts, by tier and slice, and a digest."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pvg_hf.noise.events import EVENT, digest_events
from pvg_hf.outcomes import ABSTENTIONS, ACCEPTING, SPURIOUS, Outcome

NOISE_TYPES = ("timeout", "spurious_fail", "spurious_pass")


@dataclass
class CheckCounts:
    """
    Counts of calls. The rates of the noise count every text of a problem once: equal texts have equal outcomes, so that
    they are no further trials.

    Args:
        trials, injected (`Counter[tuple[str, str, str]]`):
            By `(noise, tier, slice)`: calls into which it could be injected, and into which it was.
        escalations, successes (`Counter[str]`):
            By transition, `fast_noisy->balanced`: how many calls there were, and how many of them accepted.
        codes (`Counter[str]`):
            Of the last calls, whose word counts.
        num_calls (`int`), cost (`float`), duration_ms (`float`):
            Of all calls.
        digest (`str`):
            See [`~pvg_hf.noise.events.digest_events`].
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
    """The checks of an event log, one after the other."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if event["event"] == EVENT:
                yield event


def count_checks(events: Iterable[Mapping[str, Any]]) -> CheckCounts:
    """
    Args:
        events (`Iterable[Mapping]`):
            Of the calls, those about one solution in a row, as they are written.
    """
    counts = CheckCounts()
    known: set[tuple[Any, ...]] = set()

    def counted() -> Iterator[Mapping[str, Any]]:
        previous: Mapping[str, Any] | None = None
        for event in events:
            _count_call(counts, event, previous if event["attempt"] else None)
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

    counts.digest = digest_events(counted())
    return counts


def _count_call(counts: CheckCounts, event: Mapping[str, Any], previous: Mapping[str, Any] | None) -> None:
    counts.num_calls += event["code"] != Outcome.BUDGET_EXHAUSTED
    counts.cost += event["cost"]
    counts.duration_ms += event["duration_ms"]
    if previous is not None:
        transition = f"{previous['tier']}->{event['tier']}"
        counts.escalations[transition] += 1
        counts.successes[transition] += event["code"] in ACCEPTING


def _count_trial(counts: CheckCounts, event: Mapping[str, Any]) -> None:
    """
    A call can be made to time out whatever the truth. It can be made to reject if the verdict is that the solution is correct,
    and comes in time. That counts the calls with an injected timeout, as the closed form does, which knows no base checker's own.
    """
    verdict = None if event.get("is_late") else event["truth"]
    possible = {"timeout": True, "spurious_fail": verdict is True, "spurious_pass": verdict is False}
    for noise in NOISE_TYPES:
        if possible[noise]:
            place = (noise, event["tier"], event["slice"])
            counts.trials[place] += 1
            counts.injected[place] += event["noise"] == noise
