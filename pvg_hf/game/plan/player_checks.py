"""Whether a player can be loaded or made as the recipe says."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from transformers import AutoConfig

from pvg_hf.config.sections import PlayerConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.players import read_player_size
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.models.sources import is_adapter, resolve_model
from pvg_hf.models.verifier_input import VerifierInput


def check_player(context: PhaseContext, player: str) -> Iterator[str]:
    """The mistakes of a player's model, adapter and, for the verifier, input template."""
    recipe = context.recipe
    config: PlayerConfig = {"prover": recipe.prover, "verifier": recipe.verifier}[player]
    mistakes = _check_scratch(config, player) if config.scratch else list(_check_source(config, player))
    if not mistakes:
        mistakes = refusals(f"`{player}`", partial(read_player_size, context, player))
    yield from mistakes
    if player == "verifier":
        template, max_length = recipe.verifier.template, recipe.verifier.max_length
        yield from refusals("`verifier.template`", partial(VerifierInput, template, None, max_length))


def _check_scratch(config: PlayerConfig, player: str) -> list[str]:
    """transformers takes any argument of a configuration in silence; a misspelled one would make another model."""
    where = f"`{player}.scratch`"
    model_type, given = config.scratch.model_type, config.scratch.config
    mistakes = refusals(where, partial(AutoConfig.for_model, model_type))
    if mistakes:
        return mistakes
    known = AutoConfig.for_model(model_type).to_dict().keys() - {"vocab_size"}
    for name in given.keys() - known:
        closest = get_close_matches(name, known, n=1)
        hint = f"did you mean `{closest[0]}`?" if closest else "see its class in transformers."
        mistakes.append(f"{where}: `config` has `{name}`, which a `{model_type}` configuration does not take; {hint}")
    return mistakes


def _check_source(config: PlayerConfig, player: str) -> Iterator[str]:
    source, where = resolve_model(config.model, player), f"`{player}.model` is `{config.model}`"
    folder = Path(source)
    if folder.is_dir():
        if is_adapter(folder):
            yield f"{where}, an adapter; name the model that it belongs to, or merge it (`merge_and_unload`) and save that."
        elif not (folder / "config.json").exists():
            yield f"{where}, a folder without a `config.json`; name one that `save_pretrained` has written."
    elif config.model == "arithmetic":
        yield f"{where}, but this installation lacks the packaged model ({folder}); install the package again."
    elif not _is_hub_id(source):
        yield f"{where}, which is neither a folder on this machine nor the id of a model on the Hub (`org/name`)."
    elif constants.HF_HUB_OFFLINE and not _is_cached(config, source):
        yield f"{where}, which is not in the local cache, and `HF_HUB_OFFLINE` forbids to download it."


def _is_hub_id(source: str) -> bool:
    try:
        validate_repo_id(source)
    except HFValidationError:
        return False
    return True


def _is_cached(config: PlayerConfig, source: str) -> bool:
    try:
        AutoConfig.from_pretrained(source, revision=config.revision, local_files_only=True)
    except OSError:
        return False
    return True
