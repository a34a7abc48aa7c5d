"""
Draws many solutions to test problems for an evaluation, problem by problem, so that it can be interrupted; and
balanced best-of-n for large n on such a pool (Kirchner et al. 2024, fig. 6b).
"""

from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field
from tqdm.auto import tqdm

from pvg_hf.config.fields import AtLeastTwo, Count, section
from pvg_hf.core.figure import Figure, rate
from pvg_hf.core.files import remove, write_parquet
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.evaluation.best_of_n import balanced_best_of_n
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.experimental.judging.judged_round import JudgedRound
from pvg_hf.run.console import shows_progress
from pvg_hf.sampling import Sample, Sampler
from pvg_hf.sampling.sampler import make_rows

DRAWN_POOL = "pool.parquet"  # solutions that were drawn for the evaluation, with their scores
_PARTS = "parts"  # folder of the problems that are finished
_COLUMNS = ["problem_id", "sample_index", "solution", "correct", "outcome", "num_tokens", "score"]


def draw_pool(
    judged: JudgedRound, role: Role, problems: list[dict[str, Any]], *, num_samples: int, name: str, output: Path
) -> pd.DataFrame:
    """
    Draw solutions with the last checkpoint of the round's prover, grade them, and score them with the round's
    verifier.

    A problem's solutions are stored before the next problem; an interrupted call continues with the others. No draw
    depends on the number of problems or solutions, or on the batch.

    Args:
        problems: Test problems, the same ones in the same order in every call.
        name: Name of the evaluation, from which the draws are seeded.
        output: Folder of the result, to which `pool.parquet` is written.
    Returns: rows with `problem_id`, `sample_index`, `solution`, `correct`, `outcome`, `num_tokens`, `score`.
    """
    parts = [output / _PARTS / f"{number:06d}.parquet" for number in range(len(problems))]
    todo = [(problem, part) for problem, part in zip(problems, parts, strict=True) if not part.exists()]
    if todo:
        scorer = judged.scorer()
        sampler = judged.players.role_sampler(role, judged.round_index, base_owner=scorer)
        path = (judged.seed(name), role)
        for problem, part in tqdm(
            todo, desc=name, unit="problem", disable=not shows_progress(judged.recipe.logging), leave=False
        ):
            prompt = judged.problems.prompt(problem, role, sampler.tokenizer)
            samples = sample_many(
                sampler, prompt, (*path, problem["problem_id"]), num_samples, at_once=_rows_at_once(judged)
            )
            writer = {"part": "test", "role": role, "round_index": judged.round_index, "prover": ""}
            rows = pd.DataFrame(make_rows(judged.problems.task, [problem], [samples], **writer)[0])
            # Equal texts have equal scores, up to rounding by their batch.
            texts = list(dict.fromkeys(rows["solution"]))
            scores = dict(zip(texts, scorer([problem["problem"]] * len(texts), texts), strict=True))
            rows["score"] = rows["solution"].map(scores).astype(float)
            write_parquet(part, rows[_COLUMNS])
    pool = pd.concat(map(pd.read_parquet, parts), ignore_index=True)
    write_parquet(output / DRAWN_POOL, pool)
    remove(output / _PARTS)
    return pool


def sample_many(sampler: Sampler, prompt: str, path: tuple[object, ...], number: int, *, at_once: int) -> list[Sample]:
    """Sample solutions to one prompt, `at_once` in a batch; each has a generator seeded by `path` and its number."""
    samples: list[Sample] = []
    while len(samples) < number:
        numbers = range(len(samples), min(len(samples) + at_once, number))
        samples += sampler.sample([prompt], [[derive_rng(*path, index) for index in numbers]])[0]
    return samples


def _rows_at_once(judged: JudgedRound) -> int:
    """Return a number of solutions that fit in memory: as many as a batch of the recipe's own phases has."""
    recipe = judged.recipe
    each = max(recipe.bootstrap.solutions_per_problem, recipe.mint.test_solutions_per_problem)
    return (recipe.mint.problems_per_batch or Sampler.default_prompts_per_batch) * each


@section
class DrawnBestOfNSettings:
    """Settings of the evaluation `best_of_n`."""

    num_samples: AtLeastTwo = Field(256, description="Solutions per problem; the largest n.")
    num_problems: Count = Field(50, description="Test problems, evenly spread over the test part.")


def judge_best_of_n(judged: JudgedRound, settings: DrawnBestOfNSettings, output: Path) -> dict[str, Figure]:
    """
    Draw solutions with the round's helpful prover (its last checkpoint), and compute balanced best-of-n for powers of
    2.

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
