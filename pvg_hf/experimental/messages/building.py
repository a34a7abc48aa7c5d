"""Builds worlds, players and training arguments from a recipe."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from pvg_hf.config import RecipeError
from pvg_hf.core.project import install_extra
from pvg_hf.core.seeding import derive_seed
from pvg_hf.experimental.messages.checking_verifier import CheckingVerifier, CheckingVerifierConfig
from pvg_hf.experimental.messages.decisions import DecisionProblems, DecisionWorld, load_world
from pvg_hf.experimental.messages.mlp_players import (
    MessageMLPProver,
    MessageMLPProverConfig,
    MessageMLPVerifier,
    MessageMLPVerifierConfig,
)
from pvg_hf.experimental.messages.player_base import MessageProverModel, MessageVerifierModel
from pvg_hf.experimental.messages.problem_data import ProblemData
from pvg_hf.experimental.messages.recipe import MessagePlayer, MessageRecipe, MessageSource
from pvg_hf.experimental.messages.stackelberg_config import GAME_OPTIONS, TRAINER_OPTIONS, StackelbergConfig
from pvg_hf.experimental.messages.transformer_players import (
    DEFAULT_ENCODER,
    MessageTransformerProver,
    MessageTransformerVerifier,
)
from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.sources import local_folder


@dataclass(frozen=True)
class LoadedWorld:
    """A world with its problems as tensors."""

    world: DecisionWorld
    train: ProblemData
    test: ProblemData
    tokenizer: PreTrainedTokenizerBase | None = None


def open_world(recipe: MessageRecipe) -> LoadedWorld:
    """
    Load the world of a recipe, with witnesses if a control needs them.

    Raises `ValueError` if the world or its options are unknown, or its problems cannot be loaded.
    """
    world = load_world(recipe.world.name, **recipe.world.options)
    _check_kinds(recipe, world)
    with_witness = "witness" in recipe.controls
    parts = {split: world.problems(split, with_witness=with_witness) for split in ("train", "test")}
    tokenizer = _load_tokenizer(recipe, parts["train"]) if world.has_texts else None
    train, test = (ProblemData.of(parts[split], tokenizer, recipe.max_length) for split in ("train", "test"))
    return LoadedWorld(world, train, test, tokenizer)


def _load_tokenizer(recipe: MessageRecipe, problems: DecisionProblems) -> PreTrainedTokenizerBase:
    """
    Load the tokenizer of the pretrained encoders, or train one on the problems for new encoders.

    Raises `ValueError` if the players would need different tokenizers, or a model is neither a folder nor on the Hub.
    """
    sources = {
        player.model or DEFAULT_ENCODER for player in (recipe.prover, recipe.verifier) if player.encoder is None
    }
    sizes = {
        player.encoder.get("vocab_size") for player in (recipe.prover, recipe.verifier) if player.encoder is not None
    }
    if len(sources) + len(sizes) != 1:
        raise RecipeError(
            "Both players read the same tokens: give both the same `model`, or both an `encoder` with the same"
            f" `vocab_size`. Models: {sorted(sources)}; sizes of new vocabularies: {sorted(map(str, sizes))}."
        )
    if sources:
        return AutoTokenizer.from_pretrained(local_folder(sources.pop()), trust_remote_code=False)
    size = sizes.pop()
    if not isinstance(size, int):
        raise RecipeError("A new `encoder` needs a `vocab_size`, e.g. 400.")
    tokenizer = train_tokenizer([text for pair in problems.texts for text in pair], size)
    # The first token is one that every text has, as players read its state.
    end = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{end} $A {end}", pair=f"{end} $A {end} $B {end}", special_tokens=[(end, tokenizer.eos_token_id)]
    )
    tokenizer.padding_side = "right"
    return tokenizer


def message_width(recipe: MessageRecipe, world: DecisionWorld) -> int:
    """Return the number of entries of a message."""
    return recipe.messages.width or world.default_message_width


def make_players(
    recipe: MessageRecipe, loaded: LoadedWorld, seed: int
) -> tuple[MessageProverModel, MessageVerifierModel]:
    """
    Make the players of a game, with weights drawn from `seed`.

    Raises `ValueError` if their sizes do not fit the world.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "messages", "prover"))
        prover = make_prover(recipe, loaded)
        torch.manual_seed(derive_seed(seed, "messages", "verifier"))
        return prover, _make_verifier(recipe, loaded)


def make_prover(recipe: MessageRecipe, loaded: LoadedWorld) -> MessageProverModel:
    """Make a prover, with weights from torch's generator."""
    options = _message_options(recipe, loaded.world)
    if recipe.prover.kind == "transformer":
        return _on_encoder(recipe.prover, MessageTransformerProver, options)
    columns = loaded.train.columns
    inputs = columns.get("prover_inputs", columns.get("inputs"))
    own = recipe.prover.stated("hidden_size", "num_layers", "dropout")
    return MessageMLPProver(MessageMLPProverConfig(num_inputs=inputs.flatten(1).shape[1], **own, **options))


def _make_verifier(recipe: MessageRecipe, loaded: LoadedWorld) -> MessageVerifierModel:
    section = recipe.verifier
    options = {**_message_options(recipe, loaded.world), "num_logits": section.num_logits}
    if section.kind == "transformer":
        return _on_encoder(section, MessageTransformerVerifier, options)
    options["num_inputs"] = loaded.train.columns["inputs"].flatten(1).shape[1]
    if section.kind == "checking":
        options |= section.stated("num_checks", "start")
        if section.start == "parity":
            options["num_checks"] = options["num_inputs"] // (options["message_width"] + 1)
        return CheckingVerifier(CheckingVerifierConfig(**options))
    own = section.stated("hidden_size", "num_layers", "dropout")
    return MessageMLPVerifier(MessageMLPVerifierConfig(**own, **options))


def _on_encoder(
    section: MessagePlayer,
    player_class: type[MessageTransformerProver | MessageTransformerVerifier],
    options: dict[str, Any],
) -> MessageTransformerProver | MessageTransformerVerifier:
    options = {**options, **section.stated("dropout", "freeze_encoder")}
    if section.encoder is not None:
        return player_class(player_class.config_class(encoder=section.encoder, **options))
    return player_class.from_encoder(section.model or DEFAULT_ENCODER, **options)


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
        source: What the verifier sees as the message.
    Raises `ValueError` if settings contradict each other, or the device or a tracker is missing.
    """
    if recipe.device == "cuda" and not torch.cuda.is_available():
        raise RecipeError("`device` is `cuda`, but torch finds no GPU; use `auto` or `cpu`.")
    for tracker in recipe.report_to:
        if find_spec(tracker) is None:
            raise RecipeError(f"`report_to` has `{tracker}`, which is not installed: {install_extra('track')}.")
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
