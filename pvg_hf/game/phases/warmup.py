"""The warmup phase: makes players from a configuration, by supervised fine-tuning, or both."""

from dataclasses import asdict
from pathlib import Path

from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.config.player_sections import PlayerConfig, WarmupConfig
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.training import StopCallback, fine_tune_player
from pvg_hf.models.from_config import make_model
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import resolve_model


def run_warmup(context: PhaseContext, output: Path) -> str:
    """Write `prover` and `verifier` folders for the players that have a `scratch` or a `warmup` section."""
    lines, first_step = [], 0
    for player, config in context.recipe.players.items():
        if config.is_made:
            lines.append(_make_player(context, player, config, output / player, first_step))
        first_step += config.warmup.max_steps if config.warmup else 0
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
        line += f", {_fine_tune(context, player, config.warmup, model, tokenizer, first_step)}"
    if context.processes.is_main_process:
        model.save_pretrained(str(output))
        tokenizer.save_pretrained(output)
        if player == "verifier" and not config.scratch:
            context.recipe.verifier.implementation().store_initial(config, source, output)
    context.processes.wait_for_everyone()
    return line


def _fine_tune(context: PhaseContext, player: str, config: WarmupConfig, model, tokenizer, first_step: int) -> str:
    stop = StopCallback(context.stop, is_resumable=False)
    rows, seed = _references(context.problems, player, tokenizer), context.seed(player, "fine-tuning")
    log = fine_tune_player(context.players, model, tokenizer, rows, seed=seed, callbacks=[stop], **asdict(config))
    if stop.has_stopped:
        raise GameInterrupted
    losses = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    for step, loss in losses:
        context.record({f"warmup/{player}_loss": loss}, step=first_step + int(step))
    return f"loss {losses[0][1]:.2f} to {losses[-1][1]:.2f} in {len(losses)} steps"


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
