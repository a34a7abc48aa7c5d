"""Scores of a round as a small histogram, with the solutions on show marked in it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

NUM_BINS = 32


@dataclass(frozen=True)
class Mark:
    """A line across the histogram: what it stands for, its score, and its place in [0, 100]."""

    name: str
    score: float
    place: float


@dataclass(frozen=True)
class Histogram:
    """
    Places and heights are in [0, 100], from the left and from below.

    Args:
        bars (`list[tuple[float, float]]`):
            Height of the correct solutions' share in each bin, and of the incorrect ones'.
        counts (`dict[bool, int]`):
            Correct (True) and incorrect (False) solutions.
        ticks (`list[tuple[str, float]]`):
            Labels and places of the axis.
        marks (`list[Mark]`):
            The lines across.
    """

    bars: list[tuple[float, float]]
    counts: dict[bool, int]
    ticks: list[tuple[str, float]]
    marks: list[Mark]

    @property
    def outline(self) -> str:
        """The incorrect solutions' outline as an SVG path in a box of 100 by 100."""
        width = 100 / len(self.bars)
        steps = [f"V{100 - low:.2f} H{(place + 1) * width:.2f}" for place, (_, low) in enumerate(self.bars)]
        return f"M0 100 {' '.join(steps)} V100"


def make_histogram(scores: pd.DataFrame, marked: Mapping[str, float | None]) -> Histogram | None:
    """
    Args:
        scores (`pd.DataFrame`):
            `correct` and `score` of a round's judged solutions.
        marked (`Mapping[str, float | None]`):
            What to mark, by name.

    Returns:
        `Histogram`: `None` where there is no score.
    """
    if scores.empty:
        return None
    known = {name: score for name, score in marked.items() if score is not None}
    values = [*scores["score"], *known.values()]
    margin = 0.02 * (max(values) - min(values)) or 0.5
    low, high = min(values) - margin, max(values) + margin
    edges = np.linspace(low, high, NUM_BINS + 1)
    kinds = {kind: scores.loc[scores["correct"] == kind, "score"] for kind in (True, False)}
    shares = [np.histogram(of_kind, edges)[0] / max(1, len(of_kind)) for of_kind in kinds.values()]
    highest = max(share.max() for share in shares)

    def place(score: float) -> float:
        return 100 * (score - low) / (high - low)

    ticks = [tick for tick in MaxNLocator(6).tick_values(low, high) if low <= tick <= high]
    return Histogram(
        bars=[(100 * first / highest, 100 * second / highest) for first, second in zip(*shares)],
        counts={kind: len(of_kind) for kind, of_kind in kinds.items()},
        ticks=[(f"{tick:g}", place(tick)) for tick in ticks],
        marks=[Mark(name, score, place(score)) for name, score in known.items()],
    )
