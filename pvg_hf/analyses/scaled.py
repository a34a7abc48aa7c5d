"""
Scaled verification (DeepSeekMath-V2, 2025): the label that many analyses of a proof, and checks of them, agree on.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ScaledVerification:
    """
    Numbers of analyses and checks that a label requires. DeepSeekMath-V2 does not report its numbers.

    Args:
        num_analyses: n, the number of independent analyses of a proof.
        num_checks: m, the number of meta-verifications of each analysis with a score below 1. It is odd, so that there
            is always a majority.
        num_agreements: k, the number of analyses that must agree on a label.
    Raises `ValueError` for an even `num_checks`, `num_agreements > num_analyses`, or a number below 1.
    """

    num_analyses: int = 8
    num_checks: int = 3
    num_agreements: int = 3

    def __post_init__(self):
        check_scaled_verification(**vars(self))


def check_scaled_verification(
    num_analyses: int, num_checks: int, num_agreements: int, *, prefix: str = "num_"
) -> None:
    """
    Check the numbers of [`ScaledVerification`].

    Args:
        num_analyses, num_checks, num_agreements: n, m and k.
        prefix: The first part of their names in errors: `"label_"` for the keys of a recipe.
    Raises `ValueError` as [`ScaledVerification`].
    """
    numbers = {"analyses": num_analyses, "checks": num_checks, "agreements": num_agreements}
    for name, value in numbers.items():
        if value < 1:
            raise ValueError(f"`{prefix}{name}` must be at least 1; got {value}.")
    if num_checks % 2 == 0:
        raise ValueError(
            f"`{prefix}checks` (m) must be odd, so that a majority of the checks decides; got {num_checks}."
        )
    if num_agreements > num_analyses:
        raise ValueError(
            f"`{prefix}agreements` (k) is {num_agreements}, more than the {num_analyses} analyses of a proof "
            f"(`{prefix}analyses`, n): no proof could get a label. Lower k or raise n."
        )


@dataclass(frozen=True)
class CheckedAnalysis:
    """
    An analysis of a proof with the results of its meta-verifications.

    Args:
        text: The whole evaluation as written, with its score.
        score: The score that it ends with; `None` if it cannot be read.
        qualities: The qualities found by the meta-verifications, `None` for an unreadable one; empty if the analysis
            was not checked.
    """

    text: str
    score: float | None
    qualities: tuple[float | None, ...] = ()

    @property
    def needs_checks(self) -> bool:
        """Whether it can be parsed and claims an issue."""
        return self.score is not None and self.score < 1

    @property
    def is_confirmed(self) -> bool:
        """Whether the majority of its checks found quality 1, i.e. that all issues it names exist."""
        return 2 * sum(quality == 1 for quality in self.qualities) > len(self.qualities)


def decide_label(analyses: Sequence[CheckedAnalysis], num_agreements: int) -> float | None:
    """
    Decide the label of a proof from its analyses.

    Args:
        analyses: All analyses of one proof; those with a score below 1 have been checked.
        num_agreements: k.
    Returns: the lowest score of any readable analysis, if it is below 1 and k analyses with that score are confirmed;
        1 if no analysis below 1 is confirmed and k readable ones score 1; else `None`: a person has to decide.
    """
    # Unreadable analyses count for no label.
    readable = [analysis for analysis in analyses if analysis.score is not None]
    lowest = min((analysis.score for analysis in analyses if analysis.score is not None), default=None)
    confirmed = [analysis for analysis in readable if analysis.needs_checks and analysis.is_confirmed]
    # The most severe finding decides, but only if enough analyses confirm exactly this score.
    if lowest is not None and lowest < 1 and sum(a.score == lowest for a in confirmed) >= num_agreements:
        return lowest
    # A single confirmed issue rules out a score of 1.
    if not confirmed and sum(analysis.score == 1 for analysis in readable) >= num_agreements:
        return 1.0
    return None
