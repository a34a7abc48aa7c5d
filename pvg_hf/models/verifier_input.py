"""What a verifier reads: a template, an end token and a maximum length, stored with its weights."""

import copy
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from pvg_hf.core.integrity import DamagedFileError, read_json
from pvg_hf.core.templates import compile_template

_FILE = "verifier_input.json"


@dataclass(frozen=True)
class VerifierInput:
    """
    Args:
        template (`str`):
            Jinja template over `problem` and `solution`.
        end_token (`str`, *optional*):
            Appended to every input, unless the tokenizer appends it already; `None` appends nothing.
        max_length (`int`):
            Tokens of an input, the end token included.
    """

    template: str
    end_token: str | None
    max_length: int

    def __post_init__(self):
        try:
            self.render("", "")
        except TemplateError as err:
            raise ValueError(
                f"The verifier's template {self.template!r} cannot be rendered ({err}); it may use `problem` and "
                "`solution` only."
            ) from err

    def render(self, problem: str, solution: str) -> str:
        """The text that the verifier reads, without the end token."""
        return compile_template(self.template).render(problem=problem, solution=solution)

    def encode(self, tokenizer: PreTrainedTokenizerBase, problems: list[str], solutions: list[str]) -> list[list[int]]:
        """
        Token ids of each input, in full: nothing is cut here, so that the caller counts what is too long.

        Raises:
            ValueError: if the tokenizer does not know the end token.
        """
        template = compile_template(self.template)
        texts = [template.render(problem=p, solution=s) for p, s in zip(problems, solutions, strict=True)]
        if not texts:
            return []
        end = [] if self.end_token is None else [self._end_id(tokenizer)]
        if end and ends_texts_with(tokenizer, end[0]):
            end = []
        return [ids + end for ids in tokenizer(texts, truncation=False)["input_ids"]]

    def _end_id(self, tokenizer: PreTrainedTokenizerBase) -> int:
        index = tokenizer.convert_tokens_to_ids(self.end_token)
        if index is None or tokenizer.convert_ids_to_tokens(index) != self.end_token:  # unknown, or read as `<unk>`
            raise ValueError(
                f"The end token `{self.end_token}` is no token of the verifier's tokenizer; its own is "
                f"`{tokenizer.eos_token}`."
            )
        return index

    def save(self, folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def save_with(self, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """
        Write the input and a copy of the tokenizer. Where the input ends with the tokenizer's end token, the saved
        tokenizer appends it itself and the saved `end_token` is `None`: so every program that tokenizes a text with
        special tokens, such as `pipeline`, gives the verifier what it was trained on.
        """
        ending = None
        if self.end_token is not None and self.end_token == tokenizer.eos_token:
            ending = _appending_end(tokenizer)
        (ending or tokenizer).save_pretrained(folder)
        (replace(self, end_token=None) if ending else self).save(folder)

    @classmethod
    def load(cls, folder: Path) -> "VerifierInput":
        """
        Raises:
            DamagedFileError: if the file is damaged.
            ValueError: if `folder` holds no verifier of a game.
        """
        path = Path(folder) / _FILE
        if not path.is_file():
            raise ValueError(
                f"{folder} has no {_FILE}, which says how a problem and a solution become one text. Write one that gives "
                'the text the verifier was trained on: `VerifierInput("{{ problem }}\\n{{ solution }}", '
                f"tokenizer.eos_token, max_length=1024).save(Path({str(folder)!r}))`, from "
                "`pvg_hf.models.verifier_input`. `NoisyRewardTrainer.save_model` writes it for pairs of texts."
            )
        try:
            return cls(**read_json(path))
        except TypeError as err:
            raise DamagedFileError(path, f"is damaged ({err})") from err


def ends_texts_with(tokenizer: PreTrainedTokenizerBase, token_id: int | None) -> bool:
    """Whether a tokenizer itself puts this token at the end of every text."""
    return tokenizer("0")["input_ids"][-1:] == [token_id]


def _appending_end(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase | None:
    """A copy that appends the end token to every text and changes nothing else; `None` if there is no such copy."""
    if ends_texts_with(tokenizer, tokenizer.eos_token_id):
        return tokenizer
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    ending, before = copy.deepcopy(tokenizer), tokenizer("0")["input_ids"]
    if before[:1] == [tokenizer.bos_token_id]:
        ending.add_bos_token = True
    ending.add_eos_token = True
    return ending if ending("0")["input_ids"] == [*before, tokenizer.eos_token_id] else None
