"""Whether a player can be loaded or made as the recipe says."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from pvg_hf.config.sections import PlayerConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.hub_files import find_refusal
from pvg_hf.game.plan.players import find_config, read_player_size
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.game.plan.tokenizer_checks import check_tokenizer
from pvg_hf.models.quantization import check_quantization
from pvg_hf.models.scratch import scratch_mistakes
from pvg_hf.models.sources import PACKAGED, is_adapter, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.trainers.score_head import has_other_head


def check_player(context: PhaseContext, player: str) -> Iterator[str]:
    """The mistakes of a player's model, adapter and, for the verifier, input template."""
    recipe = context.recipe
    config: PlayerConfig = {"prover": recipe.prover, "verifier": recipe.verifier}[player]
    mistakes = list(_check_scratch(config, player) if config.scratch else check_source(config, player))
    if player == "verifier" and not (mistakes or config.scratch):
        mistakes = refusals(f"`verifier.model` is `{config.model}`", partial(_refuse_other_head, config))
    yield from mistakes or refusals(f"`{player}`", partial(read_player_size, context, player))
    yield from [] if mistakes else check_tokenizer(context, player)
    yield from _check_quantization(context, config, player)
    if player == "verifier":
        template, max_length = recipe.verifier.template, recipe.verifier.max_length
        yield from refusals("`verifier.template`", partial(VerifierInput, template, None, max_length))


def _check_quantization(context: PhaseContext, config: PlayerConfig, player: str) -> Iterator[str]:
    where = f"`{player}.quantization` is `{config.quantization}`"
    if config.quantization != "none" and config.lora is None:
        yield f"{where}: weights in 4 bits cannot be trained; add adapters (`{player}.lora: {{}}`)."
    if not context.is_elsewhere:
        yield from refusals(where, partial(check_quantization, config.quantization, context.processes.device))


def check_shared_base(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `verifier.shares_base`."""
    prover, verifier = context.recipe.prover, context.recipe.verifier
    if not verifier.shares_base:
        return
    where = "`verifier.shares_base` is true"
    if prover.lora is None or verifier.lora is None:
        yield f"{where}: both players need adapters (`prover.lora`, `verifier.lora`)."
    for player, config in (("prover", prover), ("verifier", verifier)):
        if config.scratch or config.warmup:
            yield f"{where}, and `{player}` has weights of its own (`scratch` or `warmup`); leave those out."
    for key in ("model", "revision", "quantization"):
        mine, others = vars(verifier)[key], vars(prover)[key]
        if mine != others:
            yield f"{where}: `verifier.{key}` is `{mine}`, and `prover.{key}` is `{others}`; they must be the same."
    dtypes = [context.dtype("prover", is_precise=False), context.dtype("verifier", is_precise=True)]
    if dtypes[0] != dtypes[1]:
        yield f"{where}: the prover is held in {dtypes[0]} and the verifier scores in {dtypes[1]}; set `dtype` of both."


def _check_scratch(config: PlayerConfig, player: str) -> Iterator[str]:
    return (f"`{player}.scratch`: {mistake}" for mistake in scratch_mistakes(config.scratch))


def check_source(config: PlayerConfig, player: str, where: str | None = None) -> Iterator[str]:
    """The mistakes of a section's `model`, told of the key and value `where` (that key's by default)."""
    source, where = resolve_model(config.model, player), where or f"`{player}.model` is `{config.model}`"
    folder = Path(source)
    if folder.is_dir():
        if is_adapter(folder):
            yield f"{where}, an adapter; name the model that it belongs to, or merge it (`merge_and_unload`) and save that."
        elif not (folder / "config.json").exists():
            yield f"{where}, a folder without a `config.json`; name one that `save_pretrained` has written."
    elif config.model in PACKAGED:
        yield f"{where}, but this installation lacks the packaged model ({folder}); install the package again."
    elif not _is_hub_id(source):
        yield f"{where}, which is neither a folder on this machine nor the id of a model on the Hub (`org/name`)."
    elif refusal := find_refusal(source, config.revision):
        yield (
            f"{where}, which is not in the local cache, and cannot be downloaded: {refusal}. Fetch it while there is a "
            f"connection (`hf download {source}`), or name a folder."
        )


def _refuse_other_head(config: PlayerConfig) -> None:
    """A checkpoint, in a folder or on the Hub, whose trained head a verifier could not take over."""
    stored = find_config(config, "verifier")
    if stored is not None and has_other_head(stored):
        raise ValueError(
            f"A trained classifier with {stored.num_labels} labels, and a verifier has one logit. Name the language model "
            "that it was made from, or give it a new head (`AutoModelForSequenceClassification.from_pretrained(..., "
            "num_labels=1, ignore_mismatched_sizes=True)`), save that and name its folder."
        )


def _is_hub_id(source: str) -> bool:
    try:
        validate_repo_id(source)
    except HFValidationError:
        return False
    return True
