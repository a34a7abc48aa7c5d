"""The input format of a verifier: a template, an end token and a maximum length, stored with its weights."""

import copy
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.integrity import DamagedFileError, read_json
from pvg_hf.core.templates import compile_template

_FILE = "verifier_input.json"


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
            For a verifier whose score is a likelihood, see [`~pvg_hf.models.likelihood.LikelihoodScore`]: factor of the
            mean log-probability. The tokenizer's end token then also stands before the solution, to mark its place.
        likelihood_bias (`float`, defaults to 0):
            Added to such a score. A game chooses it after the training, so that its acceptance threshold is 0.
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
        Return the token ids of each input in full; the caller truncates and counts those that are too long.

        Raises:
            ValueError: if the end token is not in the tokenizer's vocabulary, or the tokenizer has none that could mark
                the place of the solution.
        """
        template = compile_template(self.template)
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
        Write the input format and a copy of the tokenizer.

        If inputs end with the tokenizer's end token, the saved tokenizer appends it itself and the saved `end_token`
        is `None`. Any program that tokenizes texts with special tokens, such as `pipeline`, then gives the verifier
        the inputs that it was trained on.
        """
        ending = None
        if self.end_token is not None and self.end_token == tokenizer.eos_token:
            ending = _appending_end(tokenizer)
        (ending or tokenizer).save_pretrained(folder)
        (replace(self, end_token=None) if ending else self).save(folder)

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
                f"{folder} has no {_FILE}, which says how a problem and a solution become one text. Write one that produces "
                'the text the verifier was trained on: `VerifierInput("{{ problem }}\\n{{ solution }}", '
                f"tokenizer.eos_token, max_length=1024).save(Path({str(folder)!r}))`, from "
                "`pvg_hf.models.verifier_input`. `NoisyRewardTrainer.save_model` writes it for pairs of texts."
            )
        try:
            return cls(**read_json(path))
        except TypeError as err:
            raise DamagedFileError(path, f"is damaged ({err})") from err


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
