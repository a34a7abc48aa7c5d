"""Whether the players can read and write the task's texts: their tokenizers, and the verifier's maximum length."""

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from pvg_hf.config.sections import PlayerConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.lengths import find_tokenizer
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.models.sources import resolve_model
from pvg_hf.models.verifier_input import VerifierInput

NUM_PROBLEMS = 20
MAX_LOST = 0.02  # share of the characters; a tokenizer of a pretrained model may lack a rare sign
SHOWN = 40  # characters of a text in a message


def check_tokenizer(context: PhaseContext, player: str) -> Iterator[str]:
    """The mistakes of a player's tokenizer, unless it is trained on the task's texts."""
    config: PlayerConfig = {"prover": context.recipe.prover, "verifier": context.recipe.verifier}[player]
    if config.scratch:
        return
    where = f"`{player}.model` is `{config.model}`"
    if unreadable := refusals(where, partial(find_tokenizer, context, config, player)):
        yield from unreadable
        return
    tokenizer = find_tokenizer(context, config, player)
    if tokenizer is None and Path(resolve_model(config.model, player)).is_dir():
        yield f"{where}, a folder without a tokenizer that can be loaded; save one there beside the weights."
    if tokenizer is None or context.world is None:
        return
    problems = context.world.parts["verifier"]
    places = np.linspace(0, len(problems) - 1, min(NUM_PROBLEMS, len(problems))).astype(int)
    texts = [row[name] for row in problems.select(places).to_list() for name in ("problem", "reference")]
    if player == "verifier" and context.recipe.verifier.kind == "bradley_terry":
        yield from _check_max_length(context, tokenizer, texts[::2], texts[1::2])
    lost = share_lost(tokenizer, texts)
    if lost > MAX_LOST:
        yield (
            f"{where}, whose tokenizer cannot write the problems and references of the task `{context.world.task.name}`: "
            f"{lost:.0%} of their characters are lost, e.g. in {_worst_word(tokenizer, texts)!r}. Set `{player}.model` to a "
            f"model that knows such texts, or make one with `{player}.scratch`."
        )


def _check_max_length(
    context: PhaseContext, tokenizer: PreTrainedTokenizerBase, problems: Sequence[str], references: Sequence[str]
) -> Iterator[str]:
    """Whether most problems with their reference solutions fit into the verifier's input."""
    config = context.recipe.verifier
    make_input = partial(VerifierInput, config.template, tokenizer.eos_token, config.max_length)
    if refusals("`verifier.template`", make_input):
        return  # reported with the player's other mistakes
    lengths = [len(ids) for ids in make_input().encode(tokenizer, problems, references)]
    num_over = sum(length > config.max_length for length in lengths)
    if num_over > len(lengths) / 2:
        yield (
            f"`verifier.max_length` is {config.max_length}, and {num_over} of {len(lengths)} problems are longer with their "
            f"reference solution (up to {max(lengths)} tokens), so that the verifier would learn from few pairs or none: "
            f"set it to {max(lengths)} or more."
        )


def share_lost(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> float:
    """
    Share of the texts' characters that do not come back from their tokens, in [0, 1]. White space, case and accents, which
    many tokenizers of pretrained models normalise, are left out of account.
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
    """The word that loses most."""
    words = [word for text in texts for word in text.split()]
    return max(words, key=lambda word: _num_lost(tokenizer, word))[:SHOWN]
