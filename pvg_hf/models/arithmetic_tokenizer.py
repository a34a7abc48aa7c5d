"""The tokenizer of the arithmetic world's base models: a token per word, per number and per sign."""

import re

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pvg_hf.roles import Role
from pvg_hf.tasks.arithmetic.grammar import DAYS, DISTRACTORS, MAX_NUMBER, NAMES, OBJECTS, OPERATIONS, QUESTION, VERBS
from pvg_hf.tasks.arithmetic.marking import FINE, MARKS, VERDICTS
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
_PIECES = r" ?[A-Za-z]+| ?\d+| ?#+| ?[^\sA-Za-z\d#]|\s"


def build_arithmetic_tokenizer() -> PreTrainedTokenizerFast:
    """
    Words keep their leading space, so that decoding gives the text back. Numbers from 0 to `MAX_NUMBER` are one token
    each; a larger number, or a word of no story, is `<unk>`.
    """
    vocabulary = {token: index for index, token in enumerate((PAD, END, UNKNOWN, *_pieces()))}
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
        model_max_length=256,
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
    words = {piece.strip() for sentence in sentences for piece in re.findall(_PIECES, sentence)} - {"", "{", "}"}
    words |= {verb.word for verb in VERBS}
    numbers = [str(number) for number in range(MAX_NUMBER + 1)]
    return ["\n", *(space + word for word in [*sorted(words), *numbers] for space in ("", " "))]


def _role_lines() -> list[str]:
    prompts = PromptBuilder(ArithmeticTask())
    return [prompts.text({"problem": "", "reference": ""}, role) for role in Role]
