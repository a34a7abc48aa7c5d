"""The input format of a verifier: a template, an end token and a maximum length, stored with its weights."""

import copy
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.integrity import read_json
from pvg_hf.core.templates import compile_template

_FILE = "verifier_input.json"

FEW_CHARACTERS = 100_000  # of a text that is tokenised in full; a longer one may take minutes

# The special tokens are written as expressions, which also keep white space at the template's ends.
_CHAT_TEMPLATE = (
    "{{%- set problem = (messages | selectattr('role', 'equalto', 'user') | list | last)['content'] %}}"
    "{{%- set solution = (messages | selectattr('role', 'equalto', 'assistant') | list | last)['content'] %}}"
    "{{{{ {} }}}}{}{{{{ {} }}}}"
)


@dataclass(frozen=True)
class VerifierInput:
    """
    The input format of a verifier.

    Args:
        template (`str`):
            Jinja template over `problem` and `solution`.
        end_token (`str`, *optional*):
            Appended to every input unless the tokenizer already appends it; `None` appends nothing.
        max_length (`int`):
            Maximum length of an input in tokens, including the end token.
        likelihood_scale (`float`, *optional*):
            For a verifier whose score is a likelihood, see [`~pvg_hf.models.likelihood.LikelihoodScore`]: factor of
            the mean log-probability. The tokenizer's end token then also stands before the solution, to mark its
            place.
        likelihood_bias (`float`, defaults to 0):
            Added to such a score. A game chooses it after the training, so that 0 separates correct from incorrect
            held-out solutions best.
    """

    template: str
    end_token: str | None
    max_length: int
    likelihood_scale: float | None = None
    likelihood_bias: float = 0.0

    def __post_init__(self):
        try:
            self.render("", "")
        except TemplateError as err:
            raise ValueError(
                f"The verifier's template {self.template!r} cannot be rendered ({err}); it may use `problem` and "
                "`solution` only."
            ) from err

    @classmethod
    def of(cls, config: VerifierConfig, end_token: str | None) -> "VerifierInput":
        """Return the input format of a recipe's verifier, whose tokenizer has this end token."""
        scale = config.likelihood_scale if config.traits.scores_by_likelihood else None
        return cls(config.template, end_token, config.max_length, scale)

    def render(self, problem: str, solution: str) -> str:
        """Return the verifier's input text, without the end token."""
        return compile_template(self.template).render(problem=problem, solution=solution)

    def encode(self, tokenizer: PreTrainedTokenizerBase, problems: list[str], solutions: list[str]) -> list[list[int]]:
        """
        Return the token ids of each input; the caller truncates and counts those that are too long.

        Texts of more than [`max_characters`] are cut before they are tokenised.

        Raises:
            ValueError: if the end token is not in the tokenizer's vocabulary, or the tokenizer has none that could
            mark
                the place of the solution.
        """
        template = compile_template(self.template)
        limit = max_characters(tokenizer, self.max_length, max(map(len, (*problems, *solutions)), default=0))
        problems, solutions = ([text[:limit] for text in texts] for texts in (problems, solutions))
        if self.likelihood_scale is not None:
            if tokenizer.eos_token is None:
                raise ValueError("The tokenizer has no end token, with which a likelihood's inputs mark the solution.")
            solutions = [tokenizer.eos_token + solution for solution in solutions]
        texts = [template.render(problem=p, solution=s) for p, s in zip(problems, solutions, strict=True)]
        if not texts:
            return []
        end = [] if self.end_token is None else [_end_id(tokenizer, self.end_token)]
        # A saved verifier's tokenizer appends the end token itself; it must not be doubled.
        if end and ends_texts_with(tokenizer, end[0]):
            end = []
        return [ids + end for ids in tokenizer(texts, truncation=False)["input_ids"]]

    def save(self, folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def save_with(self, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """
        Write the input format and a copy of the tokenizer with which other programs make the inputs of the training.

        - If inputs end with the tokenizer's end token, the saved tokenizer appends it itself, and the saved
          `end_token` is `None`: programs that tokenize texts with special tokens, such as `pipeline` and servers, then
          add it.
        - If that token is also the padding token, it is left out instead. The head skips padding and reads the token
          before, whereas a server would read the end token.
        - The chat template writes the whole input for a chat of a problem and a solution, which TRL tokenizes without
          special tokens, if that gives the same token ids.
        """
        saved, written = tokenizer, self
        if self.end_token is not None and self.end_token == tokenizer.eos_token:
            is_skipped = self.likelihood_scale is None and tokenizer.pad_token == tokenizer.eos_token
            ending = None if is_skipped else _appending_end(tokenizer)
            saved = ending or tokenizer
            written = replace(self, end_token=None) if is_skipped or ending else self
        if self.likelihood_scale is None:
            saved = written._with_chat_template(saved)
        saved.save_pretrained(folder)
        written.save(folder)

    def _with_chat_template(self, tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
        """Return a copy of a tokenizer whose chat template writes inputs; the tokenizer if it does, or none could."""
        problem, solution = "How many?", "It is 4."
        chat = [{"role": "user", "content": problem}, {"role": "assistant", "content": solution}]
        (ids,) = self.encode(tokenizer, [problem], [solution])
        text = tokenizer(self.render(problem, solution), add_special_tokens=False)["input_ids"]
        starts = [place for place in range(len(ids) - len(text) + 1) if ids[place : place + len(text)] == text]
        candidates = [tokenizer]
        if starts:
            around = ids[: starts[0]], ids[starts[0] + len(text) :]
            before, after = ("".join(tokenizer.convert_ids_to_tokens(part)) for part in around)
            candidates.append(copy.copy(tokenizer))
            body = self.template.replace("%}\n", '%}{{ "\\n" }}')  # a chat template loses a line break after a block
            candidates[1].chat_template = _CHAT_TEMPLATE.format(json.dumps(before), body, json.dumps(after))
        return next((one for one in candidates if _read_chat(one, chat) == ids), tokenizer)

    @classmethod
    def load(cls, folder: Path) -> "VerifierInput":
        """
        Load the input format from a verifier's folder.

        Raises:
            DamagedFileError: if the file is damaged.
            ValueError: if `folder` does not hold a verifier of a game.
        """
        path = Path(folder) / _FILE
        if not path.is_file():
            raise ValueError(
                f"{folder} has no {_FILE}, which says how a problem and a solution become one text. Write one that"
                ' produces the text the verifier was trained on: `VerifierInput("{{ problem }}\\n{{ solution'
                f' }}}}", tokenizer.eos_token, max_length=1024).save(Path({str(folder)!r}))`, from'
                " `pvg_hf.models.verifier_input`. `NoisyRewardTrainer.save_model` writes it for pairs of texts."
            )
        return read_json(path, cls)


def max_characters(tokenizer: PreTrainedTokenizerBase, max_length: int, longest: int) -> int:
    """
    Return a number of characters, at least `FEW_CHARACTERS`, above which a text has more than `max_length` tokens,
    unless the vocabulary lacks its words.

    Args:
        longest: Length of the longest text; the vocabulary is looked through only if that could be too long.
    """
    if longest <= FEW_CHARACTERS:
        return FEW_CHARACTERS
    return max(FEW_CHARACTERS, (max_length + 1) * max(map(len, tokenizer.get_vocab())))


def _end_id(tokenizer: PreTrainedTokenizerBase, end_token: str) -> int:
    index = cast(int | None, tokenizer.convert_tokens_to_ids(end_token))
    if index is None or tokenizer.convert_ids_to_tokens(index) != end_token:  # unknown, or mapped to `<unk>`
        raise ValueError(
            f"The end token `{end_token}` is not in the verifier's vocabulary; the tokenizer's own is "
            f"`{tokenizer.eos_token}`."
        )
    return index


def is_verifier(folder: Path) -> bool:
    """Whether a folder holds a verifier of a game with a score head, i.e. an input format."""
    return (folder / _FILE).is_file()


def ends_texts_with(tokenizer: PreTrainedTokenizerBase, token_id: int | None) -> bool:
    """Whether a tokenizer appends this token to every text."""
    return tokenizer("0")["input_ids"][-1:] == [token_id]


def _appending_end(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase | None:
    """
    Copy a tokenizer such that it appends the end token to every text, without other changes; `None` if impossible.
    """
    if ends_texts_with(tokenizer, tokenizer.eos_token_id):
        return tokenizer
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    # Changing `add_eos_token` rebuilds the post-processor, which would drop a beginning-of-sequence token.
    ending: Any = copy.deepcopy(tokenizer)
    before = tokenizer("0")["input_ids"]
    if before[:1] == [tokenizer.bos_token_id]:
        ending.add_bos_token = True
    ending.add_eos_token = True
    return ending if ending("0")["input_ids"] == [*before, tokenizer.eos_token_id] else None


def _read_chat(tokenizer: PreTrainedTokenizerBase, chat: list[dict[str, str]]) -> list[int] | None:
    """
    Return a chat's token ids as TRL makes them; `None` without a chat template, or one that cannot write the chat.
    """
    if tokenizer.chat_template is None:
        return None
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False)
    except TemplateError:
        return None
    return tokenizer(text, add_special_tokens=False)["input_ids"]
