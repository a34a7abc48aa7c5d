"""Builds the pairs of a round from a run's pool and its recipe."""

from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset

from pvg_hf.config import Recipe
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.pairs.build import build_pairs
from pvg_hf.data.pairs.pair_report import PairReport


def round_pairs(recipe: Recipe, files: Sequence[Path], round_index: int, part: str) -> tuple[Dataset, PairReport]:
    """
    Build the pairs for training or evaluating the verifier of a round.

    Pairs for evaluation always consist of a correct and an incorrect solution, whatever the recipe trains on.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            The recipe with the round's overrides applied.
        files (`Sequence[Path]`):
            Parquet files of the solutions that the round learns from.
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
