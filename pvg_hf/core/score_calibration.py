"""What labelled solutions say about a verifier's scores: thresholds, and the probability of being correct."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pvg_hf.core.disk_names import CALIBRATION
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json, read_mapping

GRID = np.linspace(0, 1, 201)
"""Shares at which quantiles of the scores are kept."""

COMPLETENESS = 0.95
"""Share of the correct solutions that is accepted where verifiers are compared."""


@dataclass(frozen=True)
class VerifierThreshold:
    """What the calibration of any run's verifier has, also that of an older run."""

    threshold: float
    pair_accuracy: Figure | None = None


def read_threshold(folder: Path) -> VerifierThreshold:
    """Read the threshold of a verifier from its folder; a `DamagedFileError` if the file is missing or damaged."""
    return read_json(folder / CALIBRATION, VerifierThreshold)


@dataclass(frozen=True)
class ScoreCalibration:
    """
    Thresholds and probabilities of a verifier, from solutions with known correctness. It holds for solutions like
    these.

    Args:
        threshold (`float`):
            The score above which a game accepts a solution: that with the highest Youden J.
        probability (`dict[str, float]`):
            `slope` and `intercept` of the line from a score to the log-odds of being correct (Platt 1999).
        correct_scores, incorrect_scores (`list[float]`):
            Quantiles of the scores of correct and of incorrect solutions, at the shares of `GRID`.
        num_solutions, num_problems (`int`):
            Size of the sample.
        pair_accuracy (`dict`, *optional*):
            Share of pairs in the right order, with its interval.
    """

    threshold: float
    probability: dict[str, float]
    correct_scores: list[float]
    incorrect_scores: list[float]
    num_solutions: int
    num_problems: int
    pair_accuracy: dict[str, Any] | None = None

    def __post_init__(self):
        if not len(self.correct_scores) == len(self.incorrect_scores) == len(GRID):
            raise ValueError(f"needs {len(GRID)} quantiles of the scores of correct and of incorrect solutions")
        if self.probability.keys() != {"slope", "intercept"}:
            raise ValueError(f"`probability` needs a slope and an intercept; it has {sorted(self.probability)}")

    @classmethod
    def load(cls, folder: str | Path) -> "ScoreCalibration | None":
        """
        Load the calibration beside a verifier's weights; `None` if there is none, or one without quantiles, of an
        older run.

        Raises:
            DamagedFileError: if the file is damaged.
        """
        path = Path(folder) / CALIBRATION
        has_quantiles = path.is_file() and "correct_scores" in read_mapping(path, VerifierThreshold)
        return read_json(path, cls) if has_quantiles else None

    def save(self, folder: Path) -> None:
        write_json(folder / CALIBRATION, asdict(self))

    def threshold_at(self, completeness: float = COMPLETENESS) -> float:
        """
        Return the score above which this share of the correct solutions lies.

        Raises:
            ValueError: for a share outside (0, 1).
        """
        if not 0 < completeness < 1:
            raise ValueError(f"`completeness` must be in (0, 1); got {completeness}.")
        return float(np.interp(1 - completeness, GRID, self.correct_scores))

    def probability_of(self, score: float) -> float:
        """Return the probability that a solution with this score is correct, in (0, 1]."""
        return probability_at(self.probability["slope"] * score + self.probability["intercept"])


def probability_at(log_odds: float) -> float:
    """Return the logistic function of log-odds, in (0, 1]: never 0, and 1 above about 37."""
    # Clipped, because `math.exp` overflows above about 709.
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))


def quantiles_of(scores: np.ndarray) -> list[float]:
    """Return the quantiles of scores at the shares of `GRID`."""
    return np.quantile(scores, GRID).tolist()
