"""Computes a small histogram of a round's scores, in which the currently shown solutions are marked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

NUM_BINS = 32


@dataclass(frozen=True)
class Mark:
    """A vertical line in the histogram: its name, score, and horizontal place in [0, 100]."""

    name: str
    score: float
    place: float


@dataclass(frozen=True)
class Histogram:
    """A histogram of scores. Places are in [0, 100] from the left, heights in [0, 100] from below."""

    bars: list[tuple[float, float]]  # height of each bin for correct and for incorrect solutions
    counts: dict[bool, int]  # number of correct (True) and incorrect (False) solutions
    ticks: list[tuple[str, float]]  # labels and places of the axis
    marks: list[Mark]

    @property
    def outline(self) -> str:
        """Outline of the incorrect solutions as an SVG path in a box of 100 by 100."""
        width = 100 / len(self.bars)
        steps = [f"V{100 - low:.2f} H{(place + 1) * width:.2f}" for place, (_, low) in enumerate(self.bars)]
        return f"M0 100 {' '.join(steps)} V100"


def make_histogram(scores: Mapping[bool, np.ndarray], marked: Mapping[str, float | None]) -> Histogram | None:
    """
    Compute the histogram of the scores of a round's correct (True) and incorrect (False) judged solutions, each in
    ascending order.

    Scores to mark are given by name. It is `None` if there are no scores.
    """
    ends = [end for some in scores.values() if len(some) for end in (some[0], some[-1])]
    if not ends:
        return None
    known = {name: score for name, score in marked.items() if score is not None}
    values = [*ends, *known.values()]
    margin = 0.02 * (max(values) - min(values)) or 0.5
    low, high = min(values) - margin, max(values) + margin
    edges = np.linspace(low, high, NUM_BINS + 1)
    shares = [np.diff(np.searchsorted(scores[kind], edges)) / max(1, len(scores[kind])) for kind in (True, False)]
    highest = max(share.max() for share in shares)

    def place(score: float) -> float:
        return 100 * (score - low) / (high - low)

    ticks = [tick for tick in MaxNLocator(6).tick_values(low, high) if low <= tick <= high]
    return Histogram(
        bars=[(100 * first / highest, 100 * second / highest) for first, second in zip(*shares)],
        counts={kind: len(some) for kind, some in scores.items()},
        ticks=[(f"{tick:g}", place(tick)) for tick in ticks],
        marks=[Mark(name, score, place(score)) for name, score in known.items()],
    )
