"""Scaled verification: the label that many analyses of one proof, and checks of those analyses, agree on (DS25)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ScaledVerification:
    """
    How much a label takes. DS25 do not give these numbers.

    Args:
        num_analyses (`int`, defaults to 8):
            n, independent analyses of a proof.
        num_checks (`int`, defaults to 3):
            m, meta-verifications of each analysis that scores below 1; odd, so that a majority is one.
        num_agreements (`int`, defaults to 3):
            k, analyses that must agree on a label.

    Raises:
        ValueError: for an even `num_checks`, `num_agreements > num_analyses`, or a number below 1.
    """

    num_analyses: int = 8
    num_checks: int = 3
    num_agreements: int = 3

    def __post_init__(self):
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"`{name}` must be at least 1; got {value}.")
        if self.num_checks % 2 == 0:
            raise ValueError(
                f"`num_checks` (m) must be odd, so that a majority of the checks decides; got {self.num_checks}."
            )
        if self.num_agreements > self.num_analyses:
            raise ValueError(
                f"`num_agreements` (k) is {self.num_agreements}, more than the {self.num_analyses} analyses of a proof "
                "(`num_analyses`, n): no proof could get a label. Lower k or raise n."
            )


@dataclass(frozen=True)
class CheckedAnalysis:
    """
    Args:
        text (`str`):
            The evaluation as it was written.
        score (`float`, *optional*):
            What it predicts; `None` where it cannot be read.
        qualities (`tuple[float | None, ...]`):
            What the meta-verifications said, `None` where one cannot be read; empty for an analysis that was not checked.
    """

    text: str
    score: float | None
    qualities: tuple[float | None, ...] = ()

    @property
    def needs_checks(self) -> bool:
        """Whether it can be read and claims that something is wrong."""
        return self.score is not None and self.score < 1

    @property
    def is_confirmed(self) -> bool:
        """Whether the majority of its checks found quality 1."""
        return 2 * sum(quality == 1 for quality in self.qualities) > len(self.qualities)


def decide_label(analyses: Sequence[CheckedAnalysis], num_agreements: int) -> float | None:
    """
    Args:
        analyses (`Sequence[CheckedAnalysis]`):
            All of one proof; those that claim that something is wrong were checked.
        num_agreements (`int`):
            k.

    Returns:
        `float` or `None`: the lowest score that any readable analysis gives, if it is below 1 and k analyses with that
        score are confirmed; 1 if no analysis below 1 is confirmed and k readable ones score 1; else `None`, for a person
        to decide.
    """
    readable = [analysis for analysis in analyses if analysis.score is not None]
    lowest = min((analysis.score for analysis in readable), default=None)
    confirmed = [analysis for analysis in readable if analysis.needs_checks and analysis.is_confirmed]
    if lowest is not None and lowest < 1 and sum(a.score == lowest for a in confirmed) >= num_agreements:
        return lowest
    if not confirmed and sum(analysis.score == 1 for analysis in readable) >= num_agreements:
        return 1.0
    return None
