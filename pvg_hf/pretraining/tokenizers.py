"""The tokenizers of the base models, with one token per word, number and sign of their world."""

import re
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pvg_hf.analyses.form import ALLOWED_SCORES, write_evaluation
from pvg_hf.core.roles import Role
from pvg_hf.tasks.arithmetic.comparisons import grammar as comparisons
from pvg_hf.tasks.arithmetic.comparisons.lines import LINKS, NOT_NEEDED
from pvg_hf.tasks.arithmetic.stories import grammar as stories
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder
from pvg_hf.tasks.proofs import corpus as proofs
from pvg_hf.tasks.proofs import language

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
_PIECES = r" ?[A-Za-z]+| ?\d+| ?#+| ?[^\sA-Za-z\d#]|\s"
_NUMBER_WITHOUT_SPACE = r"(?:\A|(?<=\n)|(?<=\())(?=[\d#(])"  # at the start of a text or line, and after `(`


def build_arithmetic_tokenizer() -> PreTrainedTokenizerFast:
    """
    Build the tokenizer of the arithmetic world.

    A name and the `has` after it are one token at the start of a line. A line of a solution then begins with the token of
    the problem's sentence, and a small model learns to copy the sentence in a few hundred steps; with two tokens, it did
    not in many thousand. Each number from 0 to `MAX_NUMBER` is one token, the same at the start of a line and within it;
    decoding restores the text. A larger number, or a word outside the grammar, becomes `<unk>`.
    """
    texts = [
        *(
            re.sub(r"{\w+}", "", text)
            for text in (*(words for *_, words in comparisons.WORDINGS), comparisons.QUESTION)
        ),
        "has #### . = ( )",
        NOT_NEEDED,
        *LINKS,
        *comparisons.OPERATIONS,
        *comparisons.NAMES,
        *comparisons.OBJECTS,
        *_role_lines(),
    ]
    return _build(texts, comparisons.MAX_NUMBER, 320, [f"{name} has" for name in comparisons.NAMES])


def build_proofs_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer of the proofs world: that of stories, their solutions and the words of evaluations."""
    row = {"problem": "", "proof": ""}
    texts = [
        *(
            re.sub(r"{\w+}", "", text)
            for text in (*(verb.sentence for verb in stories.VERBS), *stories.DISTRACTORS, stories.QUESTION)
        ),
        "has On : = ####",
        *stories.DAYS,
        *(verb.word for verb in stories.VERBS),
        *stories.OPERATIONS,
        *stories.NAMES,
        *stories.OBJECTS,
        *_role_lines(),
        proofs.PROOF_SETTINGS.prompt(row),
        proofs.PROOF_SETTINGS.prompt({**row, "analysis": ""}),
        proofs.SELF_EVALUATION_PROMPT.replace("{{ problem }}", ""),
        *(write_evaluation("missed", score) for score in ALLOWED_SCORES),
        language.SEPARATOR,
        language.FINE,
        *language.MARKS.values(),
        *proofs.VERDICTS.values(),
    ]
    return _build(texts, stories.MAX_NUMBER, 512)


def _build(
    texts: Iterable[str], max_number: int, max_length: int, beginnings: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """
    Build a tokenizer of the words in some texts, and of numbers.

    With `beginnings` of lines, which are one token each, a number is one token with and without a space before it. This
    needs texts in which a number without one is at the start of a line or after `(`.
    """
    words = dict.fromkeys(piece.strip() for text in texts for piece in re.findall(_PIECES, text))
    words |= dict.fromkeys(str(number) for number in range(max_number + 1))
    joined = re.compile(r"[\d#]" if beginnings else r"(?!)")  # words that are spelled with a space only
    spelled = (space + word for word in words if word for space in ((" ",) if joined.match(word) else ("", " ")))
    tokens = dict.fromkeys([PAD, END, UNKNOWN, "\n", *beginnings, *spelled])
    vocabulary = {token: index for index, token in enumerate(tokens)}
    pattern = "|".join([*(f"^{beginning}" for beginning in beginnings), _PIECES])  # `^` is the start of a line here
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    if beginnings:
        tokenizer.normalizer = normalizers.Replace(Regex(_NUMBER_WITHOUT_SPACE), " ")
        without_space = [decoders.Replace("\n ", "\n"), decoders.Replace("( ", "("), decoders.Strip(" ", 1, 0)]
        tokenizer.decoder = decoders.Sequence([decoders.Fuse(), *without_space])
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


def _role_lines() -> list[str]:
    prompts = PromptBuilder(ArithmeticTask())
    return [prompts.text({"problem": "", "reference": ""}, role) for role in Role]
