"""The warmup phase: makes players from a configuration, by supervised fine-tuning, or both."""

from dataclasses import asdict
from math import ceil
from pathlib import Path

from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from pvg_hf.config.player_sections import AUTO_SAVES, MIN_AUTO_SAVE_STEPS, PlayerConfig, WarmupConfig
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.training import count_trained, fine_tuning_settings, remove_training_files, run_trainer
from pvg_hf.models.from_config import make_model
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import resolve_model
from pvg_hf.run.layout import CHECKPOINTS
from pvg_hf.trainers.common.supervised import make_fine_tuning


def run_warmup(context: PhaseContext, output: Path) -> str:
    """Write `prover` and `verifier` folders for the players that have a `scratch` or a `warmup` section."""
    lines, first_step = [], 0
    for player, config in context.recipe.players.items():
        if config.is_made:
            lines.append(_make_player(context, player, config, output / player, first_step))
        first_step += config.warmup.max_steps if config.warmup else 0
    remove_training_files(output, context.processes)
    return "; ".join(lines)


def _make_player(context: PhaseContext, player: str, config: PlayerConfig, output: Path, first_step: int) -> str:
    model: PreTrainedModel | PeftModel
    tokenizer: PreTrainedTokenizerBase
    if config.scratch:
        model, tokenizer = make_model(config.scratch, _texts(context.problems), context.seed(player, "weights"))
    else:
        source = resolve_model(config.model, player)
        model, tokenizer = load_prover(
            source, revision=config.revision, dtype=context.players.dtype(player, is_trained=True)
        )
    line = f"{player} of {model.num_parameters() / 1e6:.1f} M parameters"
    if config.warmup:
        checkpoints = output.parent / CHECKPOINTS / player
        line += f", {_fine_tune(context, player, config.warmup, model, tokenizer, checkpoints, first_step)}"
    if context.processes.is_main_process:
        model.save_pretrained(str(output))
        tokenizer.save_pretrained(output)
        if player == "verifier" and not config.scratch:
            context.recipe.verifier.implementation().store_initial(config, source, output)
    context.processes.wait_for_everyone()
    return line


def _fine_tune(
    context: PhaseContext, player: str, config: WarmupConfig, model, tokenizer, checkpoints: Path, first_step: int
) -> str:
    """Fine-tune a player in place, from its last checkpoint if there is one, and describe it in a few words."""
    settings = fine_tuning_settings(
        context.players,
        checkpoints,
        seed=context.seed(player, "fine-tuning"),
        save_steps=max(MIN_AUTO_SAVE_STEPS, ceil(config.max_steps / AUTO_SAVES)),
        **asdict(config),
    )
    rows = _references(context.problems, player, tokenizer)
    trainer = make_fine_tuning(model, tokenizer, rows, settings, [_NoLastCheckpoint()])
    before = run_trainer(context, trainer, prefix=f"warmup/{player}", first_step=first_step)
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    count_trained([entry for entry in log if entry["step"] > before], model, context.processes)
    return f"loss {log[0]['loss']:.2f} to {log[-1]['loss']:.2f} in {len(log)} steps"


class _NoLastCheckpoint(TrainerCallback):
    """Leaves out the checkpoint of the last step: a trainer that resumes there takes another step."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step >= state.max_steps:
            control.should_save = False


def _references(problems: GameProblems, player: str, tokenizer) -> Dataset:
    """
    Reference solutions of a player's own part of the training problems, with the prompts of all roles, so that no role
    is favoured.
    """
    return Dataset.from_list(
        [
            {"prompt": problems.prompt(problem, role, tokenizer), "completion": problem["reference"]}
            for problem in problems.parts[player].to_list()
            for role in Role
        ]
    )


def _texts(problems: GameProblems) -> list[str]:
    rows = [row for part in ("verifier", "prover") for row in problems.parts[part].to_list()]
    return [row["problem"] + "\n" + row["reference"] for row in rows]
