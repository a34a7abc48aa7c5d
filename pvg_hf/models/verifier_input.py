"""What a verifier reads: a template, an end token and a maximum length, stored with its weights."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from pvg_hf.templates import compile_template

_FILE = "verifier_input.json"


@dataclass(frozen=True)
class VerifierInput:
    """
    Args:
        template (`str`):
            Jinja template over `problem` and `solution`.
        end_token (`str`, *optional*):
            Appended to every input; `None` appends nothing (an encoder adds its own).
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

    @classmethod
    def load(cls, folder: Path) -> "VerifierInput":
        """
        Raises:
            ValueError: if `folder` holds no verifier of a game.
        """
        path = Path(folder) / _FILE
        try:
            values: Mapping[str, object] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as err:
            raise ValueError(f"{folder} is not a verifier of a game: it has no {_FILE}.") from err
        return cls(**values)
