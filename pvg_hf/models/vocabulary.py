"""How much of a text a tokenizer loses, because its vocabulary lacks the words."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import cast

from transformers import PreTrainedTokenizerBase

MAX_LOST = 0.02  # maximum share of lost characters; a pretrained model's tokenizer may lack a rare one

MAX_CHARACTERS = 20_000  # of a text; tokenising a huge one takes minutes

SHOWN = 40  # characters of a text shown in a message


def decode(tokenizer: PreTrainedTokenizerBase, ids: list[int], *, skip_special_tokens: bool = False) -> str:
    """Return the text of one list of token ids; transformers' own annotation is that for several lists, too."""
    return cast(str, tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))


def describe_lost(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> str | None:
    """
    Describe, for a message, the share of the texts' characters that a tokenizer loses; `None` up to `MAX_LOST`.
    """
    texts = [text[:MAX_CHARACTERS] for text in texts]
    lost = share_lost(tokenizer, texts)
    if lost <= MAX_LOST:
        return None
    words = [word for text in texts for word in text.split()]
    worst = max(words, key=lambda word: _num_lost(tokenizer, word))[:SHOWN]
    return f"{lost:.0%} of their characters are lost, e.g. in {worst!r}"


def share_lost(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> float:
    """
    Share of the texts' characters that are lost by encoding and decoding, in [0, 1].

    White space, case and accents are ignored, because many pretrained models' tokenizers normalise them.
    """
    lost = sum(_num_lost(tokenizer, text) for text in texts)
    return lost / max(sum(len(_plain(text)) for text in texts), 1)


def _num_lost(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    written = decode(tokenizer, ids)  # with special tokens, which a text may contain
    if tokenizer.unk_token and tokenizer.unk_token not in text:
        written = written.replace(tokenizer.unk_token, "")
    return (Counter(_plain(text)) - Counter(_plain(written))).total()


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(sign for sign in decomposed if not (sign.isspace() or unicodedata.combining(sign)))
