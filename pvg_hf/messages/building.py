"""Builds worlds, players and training arguments from a recipe."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from pvg_hf.config import RecipeError
from pvg_hf.config.message_recipe import MessagePlayer, MessageRecipe, MessageSource
from pvg_hf.core.seeding import derive_seed
from pvg_hf.messages.mlp_players import (
    MessageMLPProver,
    MessageMLPProverConfig,
    MessageMLPVerifier,
    MessageMLPVerifierConfig,
)
from pvg_hf.messages.player_base import MessageProverModel, MessageVerifierModel
from pvg_hf.messages.problem_data import ProblemData
from pvg_hf.messages.stackelberg_config import GAME_OPTIONS, TRAINER_OPTIONS, StackelbergConfig
from pvg_hf.tasks.decisions import DecisionWorld, load_world


@dataclass(frozen=True)
class LoadedWorld:
    """
    A world with its problems as tensors.

    Args:
        world ([`~pvg_hf.tasks.decisions.DecisionWorld`]):
            The world.
        train, test ([`~pvg_hf.messages.problem_data.ProblemData`]):
            Problems of both splits.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`], *optional*):
            The tokenizer, for texts.
    """

    world: DecisionWorld
    train: ProblemData
    test: ProblemData
    tokenizer: PreTrainedTokenizerBase | None = None


def open_world(recipe: MessageRecipe) -> LoadedWorld:
    """
    Load the world of a recipe, with witnesses if a control needs them.

    Raises:
        ValueError: if the world or its options are unknown, or its problems cannot be loaded.
    """
    world = load_world(recipe.world.name, **recipe.world.options)
    _check_kinds(recipe, world)
    with_witness = "witness" in recipe.controls
    parts = {split: world.problems(split, with_witness=with_witness) for split in ("train", "test")}
    train, test = (ProblemData.of(parts[split]) for split in ("train", "test"))
    return LoadedWorld(world, train, test)


def message_width(recipe: MessageRecipe, world: DecisionWorld) -> int:
    """Return the number of entries of a message."""
    return recipe.messages.width or world.default_message_width


def make_players(
    recipe: MessageRecipe, loaded: LoadedWorld, seed: int
) -> tuple[MessageProverModel, MessageVerifierModel]:
    """
    Make the players of a game, with weights drawn from `seed`.

    Raises:
        ValueError: if their sizes do not fit the world.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "messages", "prover"))
        prover = make_prover(recipe, loaded)
        torch.manual_seed(derive_seed(seed, "messages", "verifier"))
        return prover, _make_verifier(recipe, loaded)


def make_prover(recipe: MessageRecipe, loaded: LoadedWorld) -> MessageProverModel:
    """Make a prover, with weights from torch's generator."""
    columns = loaded.train.columns
    inputs = columns.get("prover_inputs", columns.get("inputs"))
    own = recipe.prover.stated("hidden_size", "num_layers", "dropout")
    return MessageMLPProver(
        MessageMLPProverConfig(num_inputs=inputs.flatten(1).shape[1], **own, **_message_options(recipe, loaded.world))
    )


def _make_verifier(recipe: MessageRecipe, loaded: LoadedWorld) -> MessageVerifierModel:
    own = recipe.verifier.stated("hidden_size", "num_layers", "dropout")
    options = {**own, **_message_options(recipe, loaded.world), "num_logits": recipe.verifier.num_logits}
    num_inputs = loaded.train.columns["inputs"].flatten(1).shape[1]
    return MessageMLPVerifier(MessageMLPVerifierConfig(num_inputs=num_inputs, **options))


def _message_options(recipe: MessageRecipe, world: DecisionWorld) -> dict[str, Any]:
    messages = recipe.messages
    stated = {
        name: vars(messages)[name] for name in ("num_symbols", "temperature") if vars(messages)[name] is not None
    }
    return {"message_width": message_width(recipe, world), "message_form": messages.form, **stated}


def training_arguments(
    recipe: MessageRecipe, folder: Path, source: MessageSource, *, progress: bool = False
) -> StackelbergConfig:
    """
    Turn a recipe into the arguments of the trainer.

    Args:
        recipe ([`~pvg_hf.config.message_recipe.MessageRecipe`]):
            The recipe.
        folder (`Path`):
            Folder for checkpoints.
        source (`str`):
            What the verifier sees as the message.
        progress (`bool`, *optional*, defaults to `False`):
            Whether to show a progress bar.

    Raises:
        ValueError: if settings contradict each other.
    """
    training, noise = recipe.training, recipe.noise
    options = {name: vars(training)[name] for name in GAME_OPTIONS}
    options |= {argument: vars(training)[key] for key, argument in TRAINER_OPTIONS.items()}
    return StackelbergConfig(
        str(folder),
        **options,
        message_source=source,
        noise_rho0=noise.rho0,
        noise_rho1=noise.rho1,
        noise_resample=noise.resample,
        noise_schedule=noise.schedule,
        seed=recipe.seed,
        use_cpu=recipe.device == "cpu",
        save_strategy="steps" if recipe.save_steps else "no",
        save_steps=max(1, recipe.save_steps),
        save_total_limit=1,
        logging_nan_inf_filter=False,
        report_to=recipe.report_to or "none",
        disable_tqdm=not progress,
        dataloader_pin_memory=recipe.device != "cpu" and torch.cuda.is_available(),
    )


def _check_kinds(recipe: MessageRecipe, world: DecisionWorld) -> None:
    players: dict[str, MessagePlayer] = {"prover": recipe.prover, "verifier": recipe.verifier}
    for name, player in players.items():
        if world.has_texts != (player.kind == "transformer"):
            wanted = "`transformer`" if world.has_texts else "`mlp` or `checking`"
            raise RecipeError(
                f"`{name}.kind` is `{player.kind}`, but the problems of `{world.name}` need {wanted} players."
            )
