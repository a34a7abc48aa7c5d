"""Tokenizers of the packaged models: one token for each word, number and symbol of their task."""

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pvg_hf.analyses.form import ALLOWED_SCORES, write_evaluation
from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.corpus import FINE, MARKS, VERDICTS
from pvg_hf.tasks.arithmetic.grammar import DAYS, DISTRACTORS, MAX_NUMBER, NAMES, OBJECTS, OPERATIONS, QUESTION, VERBS
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder
from pvg_hf.tasks.proofs import corpus as proofs
from pvg_hf.tasks.proofs import language

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
_PIECES = r" ?[A-Za-z]+| ?\d+| ?#+| ?[^\sA-Za-z\d#]|\s"


def build_arithmetic_tokenizer(more: Iterable[str] = (), *, max_length: int = 256) -> PreTrainedTokenizerFast:
    """
    Build the tokenizer of the arithmetic world.

    Words include their leading space, so that decoding restores the text. Each number from 0 to `MAX_NUMBER` is one
    token. A larger number, or a word outside the grammar, becomes `<unk>`.

    Args:
        more (`Iterable[str]`, *optional*):
            Texts with additional words; their ids follow those of the grammar.
        max_length (`int`, defaults to 256):
            Maximum length of a text, in tokens.
    """
    pieces = dict.fromkeys([PAD, END, UNKNOWN, *_pieces(), *_spellings(_words(more))])
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


def build_proofs_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer of the proofs world: that of the arithmetic world with the words of evaluations added."""
    row = {"problem": "", "proof": ""}
    prompts = [proofs.PROOF_SETTINGS.prompt(row), proofs.PROOF_SETTINGS.prompt({**row, "analysis": ""})]
    prompts.append(proofs.SELF_EVALUATION_PROMPT.replace("{{ problem }}", ""))
    evaluations = [write_evaluation("missed", score) for score in ALLOWED_SCORES]
    words = [language.SEPARATOR, language.FINE, *language.MARKS.values(), *proofs.VERDICTS.values()]
    return build_arithmetic_tokenizer([*prompts, *evaluations, *words], max_length=512)


def _pieces() -> list[str]:
    """List every piece that can occur in a prompt or a solution, with and without a leading space."""
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
    return ["\n", *_spellings(words), *_spellings(numbers)]


def _words(texts: Iterable[str]) -> set[str]:
    return {piece.strip() for text in texts for piece in re.findall(_PIECES, text)} - {""}


def _spellings(words: Iterable[str]) -> list[str]:
    """Return each word with and without a leading space; sets are sorted first, since their order is arbitrary."""
    ordered = sorted(words) if isinstance(words, set) else words
    return [space + word for word in ordered for space in ("", " ")]


def _role_lines() -> list[str]:
    prompts = PromptBuilder(ArithmeticTask())
    return [prompts.text({"problem": "", "reference": ""}, role) for role in Role]
