"""Balanced best-of-n for large n, from a pool of solutions that is drawn for it (Kirchner et al. 2024, fig. 6b)."""

import logging
from pathlib import Path

import pandas as pd
from pydantic import Field
from tqdm.auto import tqdm

from pvg_hf.config.fields import AtLeastTwo, Count, section
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import remove, replacing
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.evaluation.best_of_n import balanced_best_of_n
from pvg_hf.evaluation.intervals import rate
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.game.console import shows_progress
from pvg_hf.judging.judged_round import JudgedRound
from pvg_hf.sampling import Sample, Sampler
from pvg_hf.sampling.graded_solutions import make_rows

logger = logging.getLogger(__name__)

POOL = "pool.parquet"  # in the folder of the result: the drawn solutions with their scores
_PARTS = "parts"  # folder of the problems that are finished

_COLUMNS = ["problem_id", "sample_index", "solution", "correct", "outcome", "num_tokens", "score"]


@section
class DrawnBestOfNSettings:
    """Settings of the evaluation `best_of_n`."""

    num_samples: AtLeastTwo = Field(256, description="Solutions per problem; the largest n.")
    num_problems: Count = Field(50, description="Test problems, evenly spread over the test part.")


def judge_best_of_n(judged: JudgedRound, settings: DrawnBestOfNSettings, output: Path) -> dict[str, Figure]:
    """
    Draw solutions with the round's helpful prover (its last checkpoint), and compute balanced best-of-n for powers of 2.

    A problem's solutions are drawn, graded and scored together, and stored before the next problem; an interrupted call
    continues with the others. No draw depends on the number of problems or on the batch.

    Returns:
        `dict[str, Figure]`: by `N`, the share of correct choices; by `eligible/N`, the share of eligible problems.
    """
    problems = [
        {**problem, "number": number}
        for number, problem in enumerate(judged.problems.sample("test", settings.num_problems))
    ]
    todo = [problem for problem in problems if not _part(output, problem).exists()]
    if todo:
        _draw(judged, settings, output, todo)
    rows = pd.concat([pd.read_parquet(_part(output, problem)) for problem in problems], ignore_index=True)
    with replacing(output / POOL) as temporary:
        rows.to_parquet(temporary, index=False)
    remove(output / _PARTS)
    return best_of_n_curve(scored_rows(rows), [problem["problem_id"] for problem in problems], settings.num_samples)


def best_of_n_curve(rows: pd.DataFrame, problem_ids: list[str], largest: int) -> dict[str, Figure]:
    """
    Compute balanced best-of-n for n = 2, 4, 8, ... up to `largest`, and the share of problems eligible for each.

    Args:
        rows (`pd.DataFrame`):
            Scored solutions that did not fail, with `problem_id`, `score` and `correct`.
        problem_ids (`list[str]`):
            All problems that solutions were drawn for.
        largest (`int`):
            Upper bound of n, at least 2.
    """
    figures: dict[str, Figure] = {}
    n = 2
    while n <= largest:
        figure = balanced_best_of_n(rows, n)
        figures |= {str(n): figure, f"eligible/{n}": rate(figure.n, len(problem_ids))}
        n *= 2
    return figures


def _part(output: Path, problem: dict) -> Path:
    return output / _PARTS / f"{problem['number']:06d}.parquet"


def _draw(judged: JudgedRound, settings: DrawnBestOfNSettings, output: Path, problems: list[dict]) -> None:
    scorer = judged.scorer()
    sampler = judged.players.role_sampler(Role.HELPFUL, judged.round_index, base_owner=scorer)
    seed = judged.seed("best_of_n")
    for problem in tqdm(
        problems, desc="best_of_n", unit="problem", disable=not shows_progress(judged.recipe), leave=False
    ):
        prompt = judged.problems.prompt(problem, Role.HELPFUL, sampler.tokenizer)
        samples = _sample_many(
            sampler, prompt, (seed, problem["problem_id"]), settings.num_samples, _rows_at_once(judged)
        )
        writer = {"part": "test", "role": Role.HELPFUL, "round_index": judged.round_index, "prover": ""}
        rows = pd.DataFrame(make_rows(judged.problems.task, problem, samples, **writer))
        # Equal texts have equal scores, up to rounding by their batch.
        texts = list(dict.fromkeys(rows["solution"]))
        scores = dict(zip(texts, scorer([problem["problem"]] * len(texts), texts), strict=True))
        rows["score"] = rows["solution"].map(scores).astype(float)
        with replacing(_part(output, problem)) as temporary:
            rows[_COLUMNS].to_parquet(temporary, index=False)


def _sample_many(sampler: Sampler, prompt: str, path: tuple[object, ...], number: int, at_once: int) -> list[Sample]:
    """Sample solutions to one prompt, `at_once` in a batch; each has a generator that is seeded by `path` and its number."""
    samples: list[Sample] = []
    while len(samples) < number:
        numbers = range(len(samples), min(len(samples) + at_once, number))
        samples += sampler.sample([prompt], [[derive_rng(*path, index) for index in numbers]])[0]
    return samples


def _rows_at_once(judged: JudgedRound) -> int:
    """Return a number of solutions that fit in memory: as many as a batch of the recipe's own phases has."""
    recipe = judged.recipe
    each = max(recipe.bootstrap.solutions_per_problem, recipe.mint.test_solutions_per_problem)
    return recipe.mint.problems_per_batch * each
