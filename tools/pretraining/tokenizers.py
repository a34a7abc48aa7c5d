"""The tokenizers of the base models, with one token per word, number and sign of their world."""

import re
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pvg_hf.analyses.form import ALLOWED_SCORES, write_evaluation
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.experimental.programs.functions.specification import DIFFICULTIES
from pvg_hf.tasks.arithmetic import grammar
from pvg_hf.tasks.arithmetic.lines import LINKS, NOT_NEEDED
from pvg_hf.tasks.arithmetic.task import ArithmeticTask
from pvg_hf.tasks.prompts import PromptBuilder
from pvg_hf.tasks.proofs import language, stories
from tools.pretraining.program_texts import ProgramCorpusConfig, sample_program_text
from tools.pretraining.proof_texts import VERDICTS

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
_PIECES = r" ?[A-Za-z]+| ?\d+| ?#+| ?[^\sA-Za-z\d#]|\s"
_NUMBER_WITHOUT_SPACE = r"(?:\A|(?<=\n)|(?<=\())(?=[\d#(])"  # at the start of a text or line, and after `(`


def build_arithmetic_tokenizer() -> PreTrainedTokenizerFast:
    """
    Build the tokenizer of the arithmetic world.

    A name and the `has` after it are one token at the start of a line. A line of a solution then begins with the token
    of the problem's sentence, and a small model learns to copy the sentence in a few hundred steps; with two tokens,
    it did not in many thousand. Each number from 0 to `MAX_NUMBER` is one token, the same at the start of a line and
    within it; decoding restores the text. A larger number, or a word outside the grammar, becomes `<unk>`.
    """
    texts = [
        *(re.sub(r"{\w+}", "", text) for text in (*(words for *_, words in grammar.WORDINGS), grammar.QUESTION)),
        "has #### . = ( )",
        NOT_NEEDED,
        *LINKS,
        *grammar.OPERATIONS,
        *grammar.NAMES,
        *grammar.OBJECTS,
        *_role_lines(),
    ]
    return _build(texts, grammar.MAX_NUMBER, 320, [f"{name} has" for name in grammar.NAMES])


_PROGRAM_PIECES = r"\n *| ?[A-Za-z_]+| ?-?\d+| ?'[^'\n]*'| ?\[::-1\]| ?\(\)| ?\[\]| ?[=<>!+*/%-]+| ?[^\s]|\s"
_NUM_SAMPLED = 20_000  # texts whose words are the vocabulary; rarer words do not exist in the grammar


def build_functions_tokenizer() -> PreTrainedTokenizerFast:
    """
    Build the tokenizer of the task `functions`.

    A word, number, operator or quoted letter is one token, with and without a space before it, and so is a line break
    with the indentation after it. The vocabulary has the pieces of seeded texts; a word outside the grammar becomes
    `<unk>`.
    """
    rng = derive_rng("functions", "vocabulary")
    config = ProgramCorpusConfig(max_difficulty=DIFFICULTIES[1], flaw_rate=((Role.SNEAKY, 0.5),))
    texts = [sample_program_text(rng, config) for _ in range(_NUM_SAMPLED)]
    pieces = {
        piece.strip(" ") if piece.strip() else piece
        for text in texts
        for piece in re.findall(_PROGRAM_PIECES, f"{text.specification.text}\n{text.program}")
    }
    pieces |= {
        piece.strip(" ") if piece.strip() else piece
        for line in (*_role_lines(), "honest solution:\n", "next problem:\n")
        for piece in re.findall(_PROGRAM_PIECES, line)
    }
    pieces |= {str(number) for number in range(-1, 21)}
    indents = sorted(piece for piece in pieces if not piece.strip())
    words = sorted(pieces - set(indents))
    spelled = [form for word in words for form in (word, f" {word}")]
    return _with_vocabulary([*indents, *spelled], _PROGRAM_PIECES, 320)


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
        language.PROOF_SETTINGS.prompt(row),
        language.PROOF_SETTINGS.prompt({**row, "analysis": ""}),
        language.SELF_EVALUATION_PROMPT.replace("{{ problem }}", ""),
        *(write_evaluation("missed", score) for score in ALLOWED_SCORES),
        language.SEPARATOR,
        language.FINE,
        *language.MARKS.values(),
        *VERDICTS.values(),
    ]
    return _build(texts, grammar.MAX_NUMBER, 512)


def _build(
    texts: Iterable[str], max_number: int, max_length: int, beginnings: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """
    Build a tokenizer of the words in some texts, and of numbers.

    With `beginnings` of lines, which are one token each, a number is one token with and without a space before it.
    This needs texts in which a number without one is at the start of a line or after `(`.
    """
    words = dict.fromkeys(piece.strip() for text in texts for piece in re.findall(_PIECES, text))
    words |= dict.fromkeys(str(number) for number in range(max_number + 1))
    joined = re.compile(r"[\d#]" if beginnings else r"(?!)")  # words that are spelled with a space only
    spelled = (space + word for word in words if word for space in ((" ",) if joined.match(word) else ("", " ")))
    pattern = "|".join([*(f"^{beginning}" for beginning in beginnings), _PIECES])  # `^` is the start of a line here
    built = _with_vocabulary(["\n", *beginnings, *spelled], pattern, max_length)
    if beginnings:
        tokenizer = built.backend_tokenizer
        tokenizer.normalizer = normalizers.Replace(Regex(_NUMBER_WITHOUT_SPACE), " ")
        without_space = [decoders.Replace("\n ", "\n"), decoders.Replace("( ", "("), decoders.Strip(" ", 1, 0)]
        tokenizer.decoder = decoders.Sequence([decoders.Fuse(), *without_space])
    return built


def _with_vocabulary(tokens: Iterable[str], pattern: str, max_length: int) -> PreTrainedTokenizerFast:
    """Build a tokenizer of some tokens, which splits texts by a pattern."""
    vocabulary = {token: index for index, token in enumerate(dict.fromkeys([PAD, END, UNKNOWN, *tokens]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
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


def _role_lines() -> list[str]:
    prompts = PromptBuilder(ArithmeticTask())
    return [prompts.text({"problem": "", "reference": ""}, role) for role in Role]
