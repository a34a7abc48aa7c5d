"""The tokenizer of the arithmetic world's base models: a token per word, per number and per sign."""

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.corpus import FINE, MARKS, VERDICTS
from pvg_hf.tasks.arithmetic.grammar import DAYS, DISTRACTORS, MAX_NUMBER, NAMES, OBJECTS, OPERATIONS, QUESTION, VERBS
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
_PIECES = r" ?[A-Za-z]+| ?\d+| ?#+| ?[^\sA-Za-z\d#]|\s"


def build_arithmetic_tokenizer(more: Iterable[str] = (), *, max_length: int = 256) -> PreTrainedTokenizerFast:
    """
    Words keep their leading space, so that decoding gives the text back. Numbers from 0 to `MAX_NUMBER` are one token
    each; a larger number, or a word of no story, is `<unk>`.

    Args:
        more (`Iterable[str]`, *optional*):
            Texts whose words are known as well; their ids follow those of the world's own.
        max_length (`int`, defaults to 256):
            Tokens that a model reads.
    """
    pieces = dict.fromkeys([PAD, END, UNKNOWN, *_pieces(), *_spaced(_words(more))])
    vocabulary = {token: index for index, token in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=max_length,
    )


def _pieces() -> list[str]:
    """Every piece that a prompt or a solution of the world can hold, with and without a leading space."""
    fields = {"name": "", "other": "", "objects": "", "amount": ""}
    sentences = [text.format(**fields) for text in (*(verb.sentence for verb in VERBS), *DISTRACTORS, QUESTION)]
    sentences += [
        "has On :=",
        "####",
        *DAYS,
        *MARKS.values(),
        FINE,
        *VERDICTS.values(),
        *_role_lines(),
        *OPERATIONS,
        *NAMES,
        *OBJECTS,
    ]
    words = _words(sentences) - {"{", "}"} | {verb.word for verb in VERBS}
    numbers = [str(number) for number in range(MAX_NUMBER + 1)]
    return ["\n", *_spaced(words), *_spaced(numbers)]


def _words(texts: Iterable[str]) -> set[str]:
    return {piece.strip() for text in texts for piece in re.findall(_PIECES, text)} - {""}


def _spaced(words: Iterable[str]) -> list[str]:
    """Sorted where they have no order of their own, each with and without a leading space."""
    ordered = sorted(words) if isinstance(words, set) else words
    return [space + word for word in ordered for space in ("", " ")]


def _role_lines() -> list[str]:
    prompts = PromptBuilder(ArithmeticTask())
    return [prompts.text({"problem": "", "reference": ""}, role) for role in Role]
