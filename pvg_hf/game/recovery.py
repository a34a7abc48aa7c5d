"""A short supervised pass that shows a collapsed sneaky role what incorrect solutions look like."""

import tempfile

from datasets import Dataset

from pvg_hf.data.pool import load_pool
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.game.console import shows_progress
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.trainer_args import MAX_SEED
from pvg_hf.roles import Role
from pvg_hf.trainers.supervised import FineTuning, fine_tune

SUPERVISED_STEPS = 20


def fine_tune_on_incorrect(context: PhaseContext, model, tokenizer) -> None:
    """Fine-tune `model` in place on incorrect, answered solutions of the pool, asked for in the sneaky role."""
    pool = load_pool(context.folder.training_pools(context.round_index))
    failed = {outcome.value for outcome in FAILED_OUTCOMES}
    problems = {problem["problem_id"]: problem for problem in context.world.parts["verifier"].to_list()}
    rows = [
        {
            "prompt": context.world.prompt(problems[row["problem_id"]], Role.SNEAKY, tokenizer),
            "completion": row["solution"],
        }
        for row in pool
        if not row["correct"] and row["outcome"] not in failed and row["problem_id"] in problems
    ]
    if not rows:
        context.alert("sneaky_collapse", "The pool holds no incorrect solution to recover with.")
        return
    with tempfile.TemporaryDirectory() as scratch:
        settings = _settings(context, scratch)
        fine_tune(model, tokenizer, Dataset.from_list(rows), settings)


def _settings(context: PhaseContext, output_dir: str) -> FineTuning:
    return FineTuning(
        max_steps=SUPERVISED_STEPS,
        batch_size=16,
        learning_rate=context.recipe.prover.learning_rate,
        max_length=context.recipe.verifier.max_length,
        seed=context.seed("recovery") % MAX_SEED,
        output_dir=output_dir,
        use_cpu=context.processes.device.type == "cpu",
        show_progress=shows_progress(context.recipe),
    )
