"""Checks that the players can be loaded or made as the recipe says, and that their tokenizers cover the task's texts."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from transformers import PreTrainedTokenizerBase

from pvg_hf.config.players import PlayerConfig
from pvg_hf.core.hub_access import find_refusal
from pvg_hf.estimate.amounts import find_tokenizer
from pvg_hf.estimate.players import find_config, read_player_size
from pvg_hf.game.context import PhaseContext
from pvg_hf.models.from_config import scratch_mistakes
from pvg_hf.models.quantization import check_quantization
from pvg_hf.models.score_head import has_other_head
from pvg_hf.models.sources import PACKAGED, is_adapter, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.preflight.refusals import refusals

NUM_PROBLEMS = 20

MAX_LOST = 0.02  # maximum share of lost characters; a pretrained model's tokenizer may lack a rare one

SHOWN = 40  # characters of a text shown in a message


def check_tokenizer(context: PhaseContext, player: str) -> Iterator[str]:
    """List mistakes of a player's tokenizer, unless the game trains it on the task's texts."""
    config: PlayerConfig = {"prover": context.recipe.prover, "verifier": context.recipe.verifier}[player]
    if config.scratch:
        return
    where = f"`{player}.model` is `{config.model}`"
    if unreadable := refusals(where, partial(find_tokenizer, context, config, player)):
        yield from unreadable
        return
    tokenizer = find_tokenizer(context, config, player)
    if tokenizer is None and Path(resolve_model(config.model, player)).is_dir():
        yield f"{where}, a folder without a tokenizer that can be loaded; save one there, next to the weights."
    if tokenizer is None or context.problems is None:
        return
    problems = context.problems.parts["verifier"]
    places = np.linspace(0, len(problems) - 1, min(NUM_PROBLEMS, len(problems))).astype(int)
    texts = [row[name] for row in problems.select(places).to_list() for name in ("problem", "reference")]
    if player == "verifier" and not context.recipe.verifier.is_generative:
        yield from _check_max_length(context, tokenizer, texts[::2], texts[1::2])
    lost = share_lost(tokenizer, texts)
    if lost > MAX_LOST:
        yield (
            f"{where}, whose tokenizer cannot write the problems and references of the task `{context.problems.task.name}`: "
            f"{lost:.0%} of their characters are lost, e.g. in {_worst_word(tokenizer, texts)!r}. Set `{player}.model` to a "
            f"model that knows such texts, or make one with `{player}.scratch`."
        )


def _check_max_length(
    context: PhaseContext, tokenizer: PreTrainedTokenizerBase, problems: Sequence[str], references: Sequence[str]
) -> Iterator[str]:
    """List a mistake if most problems with their reference solutions exceed the verifier's maximum length."""
    config = context.recipe.verifier
    make_input = partial(VerifierInput, config.template, tokenizer.eos_token, config.max_length)
    if refusals("`verifier.template`", make_input):
        return  # reported with the player's other mistakes
    lengths = [len(ids) for ids in make_input().encode(tokenizer, problems, references)]
    # Pairs over the limit are filtered out, which does no harm unless most of them are.
    num_over = sum(length > config.max_length for length in lengths)
    if num_over > len(lengths) / 2:
        yield (
            f"`verifier.max_length` is {config.max_length}, and {num_over} of {len(lengths)} problems are longer with their "
            f"reference solution (up to {max(lengths)} tokens), so that the verifier would learn from few pairs or none: "
            f"set it to {max(lengths)} or more."
        )


def share_lost(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> float:
    """
    Share of the texts' characters that are lost by encoding and decoding, in [0, 1].

    White space, case and accents are ignored, because many pretrained models' tokenizers normalise them.
    """
    lost = sum(_num_lost(tokenizer, text) for text in texts)
    return lost / max(sum(len(_plain(text)) for text in texts), 1)


def _num_lost(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    written = tokenizer.decode(ids, skip_special_tokens=True)
    if tokenizer.unk_token and tokenizer.unk_token not in text:
        written = written.replace(tokenizer.unk_token, "")
    return (Counter(_plain(text)) - Counter(_plain(written))).total()


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(sign for sign in decomposed if not (sign.isspace() or unicodedata.combining(sign)))


def _worst_word(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> str:
    words = [word for text in texts for word in text.split()]
    return max(words, key=lambda word: _num_lost(tokenizer, word))[:SHOWN]


def check_player(context: PhaseContext, player: str) -> Iterator[str]:
    """List mistakes of a player's model, adapter and, for the verifier, input template."""
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
    """List mistakes in `verifier.shares_base`."""
    prover, verifier = context.recipe.prover, context.recipe.verifier
    if not verifier.shares_base:
        return
    where = "`verifier.shares_base` is true"
    if prover.lora is None or verifier.lora is None:
        yield f"{where}: both players need adapters (`prover.lora`, `verifier.lora`)."
    for player, config in (("prover", prover), ("verifier", verifier)):
        if config.scratch or config.warmup:
            yield f"{where}, and `{player}` makes its own weights (`scratch` or `warmup`); leave those out."
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
    """List mistakes in a section's `model`. Messages start with `where`, by default the key and its value."""
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
    """Refuse a checkpoint with a trained head that a verifier cannot use."""
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
