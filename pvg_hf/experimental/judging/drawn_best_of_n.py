"""Balanced best-of-n for large n, from a pool of solutions that is drawn for it (Kirchner et al. 2024, fig. 6b)."""

from pathlib import Path

import pandas as pd
from pydantic import Field

from pvg_hf.config.fields import AtLeastTwo, Count, section
from pvg_hf.core.figure import Figure, rate
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.best_of_n import balanced_best_of_n
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.experimental.judging.drawn_pool import draw_pool
from pvg_hf.experimental.judging.judged_round import JudgedRound


@section
class DrawnBestOfNSettings:
    """Settings of the evaluation `best_of_n`."""

    num_samples: AtLeastTwo = Field(256, description="Solutions per problem; the largest n.")
    num_problems: Count = Field(50, description="Test problems, evenly spread over the test part.")


def judge_best_of_n(judged: JudgedRound, settings: DrawnBestOfNSettings, output: Path) -> dict[str, Figure]:
    """
    Draw solutions with the round's helpful prover (its last checkpoint), and compute balanced best-of-n for powers of 2.

    Returns: by `N`, the share of correct choices; by `eligible/N`, the share of eligible problems.
    """
    problems = judged.problems.sample("test", settings.num_problems)
    rows = draw_pool(judged, Role.HELPFUL, problems, num_samples=settings.num_samples, name="best_of_n", output=output)
    return best_of_n_curve(scored_rows(rows), [problem["problem_id"] for problem in problems], settings.num_samples)


def best_of_n_curve(rows: pd.DataFrame, problem_ids: list[str], largest: int) -> dict[str, Figure]:
    """
    Compute balanced best-of-n for n = 2, 4, 8, ... up to `largest`, and the share of problems eligible for each.

    Args:
        problem_ids: All problems that solutions were drawn for.
        largest: Upper bound of n, at least 2.
    """
    figures: dict[str, Figure] = {}
    n = 2
    while n <= largest:
        figure = balanced_best_of_n(rows, n)
        figures |= {str(n): figure, f"eligible/{n}": rate(figure.n, len(problem_ids))}
        n *= 2
    return figures
