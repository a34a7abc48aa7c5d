"""Counts of what happened to the solutions of a pool when pairs were built."""

from collections import Counter
from dataclasses import asdict, dataclass, field


@dataclass
class PairReport:
    """
    Counts from building pairs.

    Args:
        num_pairs (`int`):
            Pairs built.
        num_problems (`int`):
            Problems with at least one pair.
        num_solutions (`int`):
            Solutions of the pool in the requested parts.
        dropped (`dict[str, int]`):
            Solutions that are no candidates, by the first reason that applies: `outside_mixture` (from a round of
            weight 0), `failed`, `abstained` (no label), `same_as_reference`, `duplicate_text`.
        failed (`dict[str, int]`):
            Solutions dropped as `failed`, by outcome code.
        correct (`dict[str, int]`), incorrect (`dict[str, int]`):
            Distinct solutions in pairs, by source (`base`, `round-000`, ..., `reference`) and label.
        unused (`dict[str, int]`):
            Candidates that are in no pair, as `<reason>/<source>/correct` and `<reason>/<source>/incorrect`, by the
            first reason that applies: `no_partner` (the problem has no pair), `replaced_by_reference` (the reference
            is the correct side of all pairs of the problem), `not_chosen` (the problem has more candidates than
            slots). Together with `dropped`, `correct` and `incorrect` (without references), they sum to
            `num_solutions`.
        short (`dict[str, int]`):
            Slots that a source could not fill, as `<source>/too_few_correct` and `<source>/too_few_incorrect`, or
            `<source>/too_few_solutions` if solutions are chosen regardless of their labels.
        refilled (`dict[str, int]`):
            Number of such slots that each source filled in place of another one.
        unfilled (`int`):
            Slots that stayed empty.
        without_pair (`dict[str, int]`):
            Problems of the pool without a pair: `no_correct`, `no_incorrect`, neither (`no_solution`), or solutions of
            a single text with both labels (`one_text`); for pairs of any labels, `one_text` or `no_solution`.
    """

    num_pairs: int
    num_problems: int
    num_solutions: int
    dropped: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    correct: dict[str, int] = field(default_factory=dict)
    incorrect: dict[str, int] = field(default_factory=dict)
    unused: dict[str, int] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    refilled: dict[str, int] = field(default_factory=dict)
    unfilled: int = 0
    without_pair: dict[str, int] = field(default_factory=dict)

    def as_metrics(self, prefix: str = "pairs") -> dict[str, int]:
        """Flatten the counts, e.g. to `pairs/num_pairs` and `pairs/failed/NO_ANSWER`, for a `prefix` of `pairs`."""
        metrics: dict[str, int] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                metrics.update({f"{prefix}/{name}/{key}": count for key, count in sorted(value.items())})
            else:
                metrics[f"{prefix}/{name}"] = value
        return metrics

    def explain_failure(self) -> str:
        """Explain in a few sentences why there are no pairs, or too few, and what to change."""
        if not self.num_solutions:
            return "No pair could be built: there is no solution to any of the problems."
        num_problems = self.num_problems + sum(self.without_pair.values())
        causes = [f"{self.num_problems} have a pair"] if self.num_problems else []
        causes += [text.format(count) for key, text in _CAUSES.items() if (count := self.without_pair.get(key))]
        dropped = [text.format(count) for key, text in _DROPPED.items() if (count := self.dropped.get(key))]
        failed = f" ({_describe_counts(self.failed)})" if self.dropped.get("failed") else ""
        number = f"Only {self.num_pairs} pairs" if self.num_pairs else "No pair"
        return (
            f"{number} of a correct and an incorrect solution could be built. Of {num_problems} problems {', '.join(causes)}; "
            f"of {self.num_solutions} solutions {', '.join(dropped) or 'all could be used'}{failed}. "
            f"{self._describe_places()}{self._remedy()}"
        )

    def _describe_places(self) -> str:
        """Describe the slots that stayed empty, by what their sources lacked."""
        if not self.unfilled:
            return ""
        lacked: Counter[str] = Counter()
        for key, count in self.short.items():
            lacked[key.rpartition("/too_few_")[2]] += count
        kinds = ", ".join(f"{count} for want of {kind} ones" for kind, count in sorted(lacked.items()))
        refilled = sum(self.refilled.values())
        others = f"; other sources filled {refilled} of them" if refilled else ""
        return f"{self.unfilled} places for solutions stay empty ({kinds}{others}). "

    def _remedy(self) -> str:
        """Advise what to change in a recipe, by the most frequent cause."""
        num_failed = self.dropped.get("failed", 0)
        if num_failed > self.num_solutions / 2 and self.failed.get("TRUNCATED", 0) > num_failed / 2:
            return "Most were truncated: raise `prover.max_completion_length`, or train the prover to stop (`prover.warmup`)."
        if num_failed > self.num_solutions / 2 and self.failed.get("NO_ANSWER", 0) > num_failed / 2:
            return (
                "Most have no answer: have the last number read (`task.answer_format: lenient`), show the prover solved examples "
                "(`task.few_shot`), or train it to keep the format (`prover.warmup`)."
            )
        if self.dropped.get("abstained", 0) > self.num_solutions / 2:
            return "Most have no label: raise the budget of `noise.checker`, or use another checker."
        if self.dropped.get("outside_mixture", 0) > self.num_solutions / 2:
            return "Most are from rounds of weight 0: change `data.mixture`."
        if self.without_pair.get("no_incorrect", 0) > self.without_pair.get("no_correct", 0):
            return (
                "The prover makes too few mistakes: use harder problems (`task`), or more solutions of each "
                "(`bootstrap.solutions_per_problem`, `mint.solutions_per_problem`)."
            )
        return (
            "Train the base prover longer (`prover.warmup`), show it solved examples (`task.few_shot`), let it write more "
            "solutions (`bootstrap.solutions_per_problem`), or use references as correct sides (`data.correct_source: both`)."
        )


class TooFewPairsError(ValueError):
    """
    Error if no pair can be built, or fewer than a verifier needs.

    Args:
        report ([`PairReport`]):
            Counts that explain why.
        note (`str`, *optional*):
            End of the message.
    """

    def __init__(self, report: PairReport, note: str = ""):
        super().__init__(report.explain_failure() + note)
        self.report = report


_CAUSES = {
    "no_correct": "{} have no correct solution",
    "no_incorrect": "{} have no incorrect solution",
    "one_text": "{} have solutions of a single text",
    "no_solution": "{} have no solution that could be used",
}

_DROPPED = {
    "failed": "{} failed",
    "abstained": "{} have no label",
    "outside_mixture": "{} are from rounds of weight 0",
    "same_as_reference": "{} equal the reference",
    "duplicate_text": "{} repeat a text of their round",
}


def _describe_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count) or "none"
