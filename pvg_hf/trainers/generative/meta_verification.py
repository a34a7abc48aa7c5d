"""Asks a meta-verifier to rate the analyses of a step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pvg_hf.analyses.form import Evaluation
from pvg_hf.core.extensions import ExtensionError

MetaVerifier = Callable[[list[str], list[str], list[str]], Sequence[float | None]]
"""Function (problems, proofs, analyses) -> qualities in [0, 1], or `None` for an unreadable answer."""


@dataclass(frozen=True)
class Qualities:
    """
    Qualities of a step's analyses; each list has one element per evaluation.

    Args:
        quality: Quality of the analysis.
        was_asked: Whether the meta-verifier was asked about it.
        is_unreadable: Whether it was asked and its answer was unreadable, which counts as 0.
    """

    quality: list[float]
    was_asked: list[bool]
    is_unreadable: list[bool]


def ask_meta_verifier(
    meta_verifier: MetaVerifier | None,
    problems: Sequence[str],
    proofs: Sequence[str],
    evaluations: Sequence[Evaluation],
    *,
    is_exempt: Sequence[bool] | None = None,
) -> Qualities:
    """
    Return the quality of each analysis.

    It is 1 without a meta-verifier and for exempt evaluations, and 0 for an evaluation without the form; about these,
    the meta-verifier is not asked.

    Raises `ExtensionError` unless the meta-verifier returns a quality in [0, 1], or `None`, for each analysis.
    """
    numbers = range(len(evaluations))
    exempt = {index for index in numbers if meta_verifier is None or (is_exempt is not None and is_exempt[index])}
    asked = [index for index in numbers if index not in exempt and evaluations[index].has_form]
    # One call for all analyses, so that a model can batch them.
    said: Sequence[float | None] = ()
    if meta_verifier is not None and asked:
        analyses = [evaluations[index].analysis or "" for index in asked]
        said = meta_verifier([problems[index] for index in asked], [proofs[index] for index in asked], analyses)
        _check_qualities(said, len(asked))
    found = dict(zip(asked, said, strict=True))
    return Qualities(
        # Not asked (no form) and unreadable both give 0.
        quality=[1.0 if index in exempt else found.get(index) or 0.0 for index in numbers],
        was_asked=[index in found for index in numbers],
        is_unreadable=[index in found and found[index] is None for index in numbers],
    )


def _check_qualities(said: Sequence[float | None], num_analyses: int) -> None:
    if not isinstance(said, Sequence):
        raise ExtensionError(
            f"The meta-verifier returned {said!r:.80}; it must return a list with one quality per analysis."
        )
    if len(said) != num_analyses:
        raise ExtensionError(
            f"The meta-verifier was asked about {num_analyses} analyses and returned {len(said)} qualities."
        )
    wrong = [value for value in said if value is not None and not 0 <= value <= 1]
    if wrong:
        raise ExtensionError(
            f"The meta-verifier returned the quality {wrong[0]}; a quality must lie in [0, 1], or be `None` if"
            " unreadable."
        )
