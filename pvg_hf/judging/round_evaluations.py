"""The evaluations of a finished round, by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pvg_hf.core.extensions import suggest
from pvg_hf.core.figure import Figure
from pvg_hf.judging.drawn_best_of_n import DrawnBestOfNSettings, judge_best_of_n
from pvg_hf.judging.judged_round import JudgedRound

Judge = Callable[[JudgedRound, Any, Path], Mapping[str, Figure]]


@dataclass(frozen=True)
class RoundEvaluation:
    """
    An evaluation of a finished round.

    Args:
        title (`str`):
            Heading of its table in the report.
        judge (`Callable`):
            `(round, settings, output) -> figures`. It may write files to the folder `output`, where it finds those that
            an interrupted call has written.
        settings (`type`):
            A section (see `pvg_hf.config.fields.section`) with the settings and their defaults.
        phases (`tuple[str, ...]`):
            Phases of the round whose results it reads.
        terms (`dict[str, str]`):
            Explanations of the figures' names, for the report.
        is_costly (`bool`):
            Whether it takes as long as a game; it then runs only if it is named.
        prepare (`Callable`, *optional*):
            Function of a list of `(round, settings)`, with all rounds that are not finished, called before they are
            judged: work that is done for all of them together.
    """

    title: str
    judge: Judge
    settings: type
    phases: tuple[str, ...]
    terms: dict[str, str] = field(default_factory=dict)
    is_costly: bool = False
    prepare: Callable[[Sequence[tuple[JudgedRound, Any]]], None] | None = None


EVALUATIONS: dict[str, RoundEvaluation] = {
    "best_of_n": RoundEvaluation(
        title="Balanced best-of-n on a large pool",
        judge=judge_best_of_n,
        settings=DrawnBestOfNSettings,
        phases=("verifier", "prover"),
        terms={
            "N": "share of eligible problems in which the highest-scoring of N/2 correct and N/2 incorrect solutions is "
            "correct; chance .5. n counts the eligible problems, which have so many of both kinds.",
            "eligible/N": "share of the problems that are eligible.",
        },
    ),
}


def find_evaluation(name: str) -> RoundEvaluation:
    """
    Return the evaluation of a name.

    Raises:
        ValueError: if there is none.
    """
    if name not in EVALUATIONS:
        raise ValueError(f"Unknown evaluation `{name}`. {suggest(name, EVALUATIONS)}")
    return EVALUATIONS[name]
