"""What became of the solutions of a pool when pairs were built."""

from dataclasses import asdict, dataclass, field


@dataclass
class PairReport:
    """
    Counts of one building of pairs.

    Args:
        num_pairs (`int`):
            Pairs built.
        num_problems (`int`):
            Problems with at least one pair.
        num_solutions (`int`):
            Solutions of the parts asked for that the pool holds.
        dropped (`dict[str, int]`):
            Those that could not be chosen, by the first reason that applies: `outside_mixture` (of a round that weighs
            0), `failed`, `abstained` (no label), `same_as_reference`, `duplicate_text`.
        failed (`dict[str, int]`):
            Those dropped as `failed`, by outcome code.
        correct (`dict[str, int]`), incorrect (`dict[str, int]`):
            Distinct solutions in pairs, by source (`base`, `round-000`, ..., `reference`) and label.
        unused (`dict[str, int]`):
            Solutions that could be chosen but are in no pair, as `<reason>/<source>/correct` and
            `<reason>/<source>/incorrect`. The first reason that applies counts: `no_partner` (its problem has no pair), `replaced_by_reference` (its problem's correct sides are all the reference), `not_chosen`
            (its problem has more than there are slots). With `dropped`, `correct` and `incorrect` (without references),
            they sum to `num_solutions`.
        short (`dict[str, int]`):
            Slots that a source could not fill, as `<source>/too_few_correct` and `<source>/too_few_incorrect`, or, where
            solutions are chosen whatever their labels, `<source>/too_few_solutions`.
        refilled (`dict[str, int]`):
            How many of those each source filled in another's place.
        unfilled (`int`):
            Slots that stayed empty.
        without_pair (`dict[str, int]`):
            Problems that the pool holds but no pair does: `no_correct`, `no_incorrect`, or neither (`no_solution`); for
            pairs of any labels, `one_solution` or `no_solution`.
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
        """Flat, e.g. `pairs/num_pairs` and `pairs/failed/NO_ANSWER`; `prefix` stands in place of `pairs`."""
        metrics: dict[str, int] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                metrics.update({f"{prefix}/{name}/{key}": count for key, count in sorted(value.items())})
            else:
                metrics[f"{prefix}/{name}"] = value
        return metrics

    def explain_failure(self) -> str:
        """One sentence on why there is no pair."""
        return (
            f"No pair could be built from {self.num_solutions} solutions: {self.dropped.get('failed', 0)} failed "
            f"({_listed(self.failed)}), dropped in all were {_listed(self.dropped)}, and of the problems "
            f"{_listed(self.without_pair)} were left. A pair needs a solution labelled correct and one labelled "
            "incorrect of one problem, or, where labels are not regarded, two solutions of one problem."
        )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count) or "none"
