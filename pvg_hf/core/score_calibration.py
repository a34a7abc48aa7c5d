"""What labelled solutions say about a verifier's scores: thresholds, and the probability of being correct."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pvg_hf.core.acceptance import COMPLETENESS, Acceptance
from pvg_hf.core.disk_names import CALIBRATION
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json, read_mapping

GRID = np.linspace(0, 1, 201)
"""Shares at which quantiles of the scores are kept."""


@dataclass(frozen=True)
class ScoreCalibration:
    """
    Thresholds and probabilities of a verifier, from solutions with known correctness. It holds for solutions like
    these.

    Args:
        probability (`dict[str, float]`):
            `slope` and `intercept` of the line from a score to the log-odds of being correct (Platt 1999).
        correct_scores, incorrect_scores (`list[float]`):
            Quantiles of the scores of correct and of incorrect solutions, see [`quantiles_of`].
        num_solutions, num_problems (`int`):
            Size of the sample.
        pair_accuracy (`Figure`, *optional*):
            Share of pairs in the right order.
    """

    probability: dict[str, float]
    correct_scores: list[float]
    incorrect_scores: list[float]
    num_solutions: int
    num_problems: int
    pair_accuracy: Figure | None = None

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
        has_quantiles = path.is_file() and "correct_scores" in read_mapping(path, dict[str, Any])
        return read_json(path, cls) if has_quantiles else None

    @classmethod
    def require(cls, folder: str | Path) -> "ScoreCalibration":
        """Load the calibration beside a verifier's weights; raise `ValueError` if [`load`] finds none."""
        return needed(cls.load(folder), folder)

    def save(self, folder: Path) -> None:
        """Write the file, with the threshold at `COMPLETENESS` for those who read it without pvg_hf."""
        write_json(folder / CALIBRATION, {**asdict(self), "threshold": self.acceptance().threshold})

    def acceptance(self, completeness: float = COMPLETENESS) -> Acceptance:
        """
        Return the rule that accepts this share of correct solutions like those of the calibration.

        Raises:
            ValueError: for a share outside (0, 1).
        """
        return Acceptance.at(self.correct_scores, completeness)

    def probability_of(self, score: float) -> float:
        """Return the probability that a solution with this score is correct, in (0, 1]."""
        return probability_at(self.probability["slope"] * score + self.probability["intercept"])


def probability_at(log_odds: float) -> float:
    """
    Return the logistic function of log-odds, in (0, 1]: never 0, and 1 above about 37.

    Raises `ValueError` if they are not finite.
    """
    if not math.isfinite(log_odds):
        raise ValueError(f"A score is {log_odds}, which has no probability; scores must be finite numbers.")
    # Clipped, because `math.exp` overflows above about 709.
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))


def quantiles_of(scores: np.ndarray) -> list[float]:
    """Return the score that each share of `GRID` lies below: the threshold at which the rest is accepted."""
    inner = (Acceptance.at(scores, 1 - share).threshold for share in GRID[1:-1])
    return [float(min(scores)), *inner, float(max(scores))]


def needed(calibration: ScoreCalibration | None, verifier: str | Path = "This verifier") -> ScoreCalibration:
    """Return a verifier's calibration; raise `ValueError` if it has none."""
    if calibration is None:
        raise ValueError(
            f"{verifier} has no calibration (`{CALIBRATION}` beside its weights, with quantiles), so that its scores"
            " have no threshold or probability. Make one from solutions with known correctness:"
            " `pvg calibrate VERIFIER labelled.jsonl`."
        )
    return calibration
