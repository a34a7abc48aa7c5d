"""The prompts that a prover is trained on."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

from datasets import Dataset

from pvg_hf.game.context import PhaseContext
from pvg_hf.roles import Role
from pvg_hf.seeding import derive_rng


def prover_prompts(context: PhaseContext, tokenizer, roles: Sequence[Role], *, easiest_first: bool = False) -> Dataset:
    """
    One row for each prompt of the phase, in the order of training, so that the phase is one epoch of a dataset that is
    shuffled already and can be continued at any step.

    Args:
        context ([`PhaseContext`]):
            The phase.
        tokenizer:
            Of the prover.
        roles (`Sequence[Role]`):
            Each problem is asked in each of these roles.
        easiest_first (`bool`, defaults to `False`):
            Order by difficulty (the task's `difficulty`, else the reference's length) instead of at random.

    Raises:
        ValueError: if D_pi is too small for one generation batch.
    """
    config = context.recipe.prover
    problems = context.world.parts["prover"].to_list()
    rows = [
        {**problem, "role": role.value, "prompt": context.world.prompt(problem, role, tokenizer)}
        for problem in problems
        for role in roles
    ]
    if len(rows) < config.prompts_per_step:
        raise ValueError(
            f"D_pi has {len(problems)} problems, which give {len(rows)} prompts; one step takes "
            f"`prover.prompts_per_step` = {config.prompts_per_step}. Use more problems, or fewer prompts a step."
        )
    ordered = cycle(sorted(rows, key=_difficulty)) if easiest_first else _shuffled_forever(context, rows)
    return Dataset.from_list(list(islice(ordered, config.prompts_per_step * config.num_batches)))


def _shuffled_forever(context: PhaseContext, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    epoch = 0
    while True:
        for index in derive_rng(context.seed("prompts"), epoch).permutation(len(rows)):
            yield rows[index]
        epoch += 1


def _difficulty(row: dict[str, Any]) -> tuple[int, str]:
    return row.get("difficulty", len(row["reference"])), row["problem_id"]
