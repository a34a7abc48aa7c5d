"""Recovery of a collapsed sneaky role: a short supervised training on incorrect solutions."""

from pathlib import Path

import numpy as np
from datasets import Dataset

from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.role_figures import has_failed
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.training import fine_tune_player

SUPERVISED_STEPS, BATCH_SIZE = 20, 16


def fine_tune_on_incorrect(context: PhaseContext, model, tokenizer) -> None:
    """Fine-tune `model` in place on the pool's incorrect solutions (without failed ones), with sneaky prompts."""
    problems = context.problems.parts["verifier"]
    files = context.folder.training_pools(context.round_index)
    number = SUPERVISED_STEPS * BATCH_SIZE * context.processes.num_processes
    places = {problem_id: place for place, problem_id in enumerate(problems["problem_id"])}
    rows = [
        {
            "prompt": context.problems.prompt(problems[places[row["problem_id"]]], Role.SNEAKY, tokenizer),
            "completion": row["solution"],
        }
        for row in _draw_incorrect(files, number, context.seed("recovery", "solutions"))
    ]
    if not rows:
        context.alert("sneaky_collapse", "The pool has no incorrect solution for the recovery.")
        return
    fine_tune_player(
        context,
        model,
        tokenizer,
        Dataset.from_list(rows),
        seed_path=("recovery",),
        max_steps=SUPERVISED_STEPS,
        batch_size=BATCH_SIZE,
        learning_rate=context.recipe.prover.learning_rate,
        max_length=context.recipe.verifier.max_length,
    )


def _draw_incorrect(files: list[Path], number: int, seed: int) -> Dataset:
    """Draw `number` incorrect solutions of the pool in `files`, or all if there are fewer."""
    columns = ["problem_id", "solution", "correct", "outcome"]
    pool = load_pool(files, columns, parts=("verifier",))
    # Only these two columns are loaded into memory; the texts of a large pool stay on disk.
    kinds = pool.select_columns(["correct", "outcome"]).to_pandas()
    incorrect = np.flatnonzero(~kinds["correct"] & ~has_failed(kinds))
    drawn = derive_rng(seed).choice(incorrect, min(len(incorrect), number), replace=False)
    return pool.select(np.sort(drawn))
