"""Makes the players that a recipe does not take ready-made: from a configuration, by supervised fine-tuning, or both."""

from pathlib import Path

from datasets import Dataset

from pvg_hf.config.sections import PlayerConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.trainer_args import MAX_SEED
from pvg_hf.game.training import StopCallback
from pvg_hf.models.prover import load_prover
from pvg_hf.models.scratch import make_model
from pvg_hf.models.sources import resolve_model
from pvg_hf.roles import Role
from pvg_hf.trainers.supervised import FineTuning, fine_tune


def run_warmup(context: PhaseContext, output: Path) -> str:
    """Write `prover` and `verifier` folders for the players that have a `scratch` or a `warmup` section."""
    lines = []
    for player, config in (("prover", context.recipe.prover), ("verifier", context.recipe.verifier)):
        if config.scratch or config.warmup:
            lines.append(_make_player(context, player, config, output / player))
    return "; ".join(lines)


def _make_player(context: PhaseContext, player: str, config: PlayerConfig, output: Path) -> str:
    if config.scratch:
        model, tokenizer = make_model(config.scratch, _texts(context), context.seed(player, "weights"))
    else:
        source = resolve_model(config.model, player)
        model, tokenizer = load_prover(source, revision=config.revision, dtype=context.dtype(player))
    line = f"{player} of {model.num_parameters() / 1e6:.1f} M parameters"
    if config.warmup:
        line += f", {_fine_tune(context, player, config, model, tokenizer)}"
    if context.processes.is_main_process:
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)
    context.processes.wait_for_everyone()
    return line


def _fine_tune(context: PhaseContext, player: str, config: PlayerConfig, model, tokenizer) -> str:
    settings = FineTuning(
        max_steps=config.warmup.max_steps,
        batch_size=config.warmup.batch_size,
        learning_rate=config.warmup.learning_rate,
        max_length=config.warmup.max_length,
        seed=context.seed(player, "fine-tuning") % MAX_SEED,
        output_dir=str(context.folder.root / ".warmup"),
        use_cpu=context.processes.device.type == "cpu",
        show_progress=context.recipe.logging.progress,
    )
    callbacks = [StopCallback(context.stop, is_resumable=False)]
    log = fine_tune(model, tokenizer, _references(context, tokenizer), settings, callbacks)
    context.stop.check()
    losses = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    for step, loss in losses:
        context.record({f"warmup/{player}_loss": loss}, step=step)
    return f"loss {losses[0][1]:.2f} to {losses[-1][1]:.2f} in {len(losses)} steps"


def _references(context: PhaseContext, tokenizer) -> Dataset:
    """Reference solutions of the training problems, asked for in each role alike: no role is taught yet."""
    rows = []
    for part in ("verifier", "prover"):
        for problem in context.world.parts[part].to_list():
            for role in Role:
                prompt = context.world.prompt(problem, role, tokenizer)
                rows.append({"prompt": prompt, "completion": problem["reference"]})
    return Dataset.from_list(rows)


def _texts(context: PhaseContext) -> list[str]:
    problems = [p for part in ("verifier", "prover") for p in context.world.parts[part].to_list()]
    return [problem["problem"] + "\n" + problem["reference"] for problem in problems]
