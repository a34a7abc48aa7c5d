"""Makes the players that a recipe does not take ready-made: from a configuration, by supervised fine-tuning, or both."""

import tempfile
from pathlib import Path

from datasets import Dataset

from pvg_hf.config.players import PlayerConfig, WarmupConfig
from pvg_hf.core.roles import Role
from pvg_hf.game.console import shows_progress
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.training import StopCallback
from pvg_hf.models.from_config import make_model
from pvg_hf.models.prover import load_prover
from pvg_hf.models.sources import resolve_model
from pvg_hf.trainers.arguments import MAX_SEED
from pvg_hf.trainers.common.supervised import FineTuning, fine_tune


def run_warmup(context: PhaseContext, output: Path) -> str:
    """Write `prover` and `verifier` folders for the players that have a `scratch` or a `warmup` section."""
    lines, first_step = [], 0
    for player, config in context.recipe.players.items():
        if config.is_made:
            lines.append(_make_player(context, player, config, output / player, first_step))
        first_step += config.warmup.max_steps if config.warmup else 0
    return "; ".join(lines)


def _make_player(context: PhaseContext, player: str, config: PlayerConfig, output: Path, first_step: int) -> str:
    if config.scratch:
        model, tokenizer = make_model(config.scratch, _texts(context), context.seed(player, "weights"))
    else:
        source = resolve_model(config.model, player)
        model, tokenizer = load_prover(source, revision=config.revision, dtype=context.dtype(player, is_precise=True))
    line = f"{player} of {model.num_parameters() / 1e6:.1f} M parameters"
    if config.warmup:
        line += f", {_fine_tune(context, player, config, model, tokenizer, first_step)}"
    if context.processes.is_main_process:
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)
        if player == "verifier" and context.recipe.verifier.kind == "score" and not config.scratch:
            config.score_settings.prompts_for(source, config.revision).save(output)
    context.processes.wait_for_everyone()
    return line


def _fine_tune(context: PhaseContext, player: str, config: PlayerConfig, model, tokenizer, first_step: int) -> str:
    stop = StopCallback(context.stop, is_resumable=False)
    with tempfile.TemporaryDirectory() as scratch:
        settings = _settings(context, player, config.warmup, scratch)
        log = fine_tune(model, tokenizer, _references(context, tokenizer), settings, [stop])
    if stop.has_stopped:
        raise GameInterrupted
    losses = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    for step, loss in losses:
        context.record({f"warmup/{player}_loss": loss}, step=first_step + step)
    return f"loss {losses[0][1]:.2f} to {losses[-1][1]:.2f} in {len(losses)} steps"


def _settings(context: PhaseContext, player: str, warmup: WarmupConfig, output_dir: str) -> FineTuning:
    return FineTuning(
        max_steps=warmup.max_steps,
        batch_size=warmup.batch_size,
        learning_rate=warmup.learning_rate,
        max_length=warmup.max_length,
        seed=context.seed(player, "fine-tuning") % MAX_SEED,
        output_dir=output_dir,
        use_cpu=context.processes.device.type == "cpu",
        show_progress=shows_progress(context.recipe),
    )


def _references(context: PhaseContext, tokenizer) -> Dataset:
    """Reference solutions of the training problems, asked for in each role alike: no role is taught yet."""
    rows = []
    for part in ("verifier", "prover"):
        for problem in context.problems.parts[part].to_list():
            for role in Role:
                prompt = context.problems.prompt(problem, role, tokenizer)
                rows.append({"prompt": prompt, "completion": problem["reference"]})
    return Dataset.from_list(rows)


def _texts(context: PhaseContext) -> list[str]:
    problems = [p for part in ("verifier", "prover") for p in context.problems.parts[part].to_list()]
    return [problem["problem"] + "\n" + problem["reference"] for problem in problems]
