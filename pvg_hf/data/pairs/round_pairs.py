"""Builds the pairs of a round from a run's pool and its recipe."""

from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset

from pvg_hf.config import Recipe
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.pairs.build import build_pairs
from pvg_hf.data.pairs.pair_report import PairReport
from pvg_hf.data.schema import BASE_ROUND, round_name


def training_files(pool: Path, round_index: int) -> list[Path]:
    """
    List the Parquet files that the verifier of a round learns from: the base prover's and those of every earlier
    round.

    Args:
        pool (`Path`):
            The run's `pool` folder.
        round_index (`int`):
            Round of the verifier.
    """
    files = [pool / round_name(BASE_ROUND) / f"{Role.BASE}.parquet"]
    return files + [pool / round_name(k) / f"{role}.parquet" for k in range(round_index) for role in GAME_ROLES]


def round_pairs(recipe: Recipe, files: Sequence[Path], round_index: int, part: str) -> tuple[Dataset, PairReport]:
    """
    Build the pairs for training or evaluating the verifier of a round.

    Pairs for evaluation always consist of a correct and an incorrect solution, whatever the recipe trains on.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            The recipe with the round's overrides applied.
        files (`Sequence[Path]`):
            Files from [`training_files`].
        round_index (`int`):
            Round of the verifier.
        part (`str`):
            Part of the split: `verifier` or `verifier_heldout`.

    Raises:
        ValueError: if no pair can be built.
    """
    data = recipe.data
    choice = {"pairs": data.pairs, "pair_share": data.pair_share} if part == "verifier" else {}
    return build_pairs(
        files,
        seed=recipe.seed,
        round_index=round_index,
        weights=weights_for(data, round_index),
        solutions_per_problem=data.solutions_per_problem,
        correct_source=data.correct_source,
        parts=(part,),
        **choice,
    )
