"""Prompts and answer settings of a score verifier, stored next to its weights."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HFValidationError, OfflineModeIsEnabled, RepositoryNotFoundError
from jinja2 import TemplateError

from pvg_hf.analyses.form import CLOSING, OPENING
from pvg_hf.core.integrity import read_json
from pvg_hf.core.templates import check_chat_template_kwargs, compile_template, outside_variables, render_prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_FILE = "score_verifier.json"
_FORM = f"""Answer in exactly this form:
{OPENING}
(your analysis)
{CLOSING}
\\boxed{{s}}
where s is 0, 0.5 or 1."""

EVALUATE_PROMPT = f"""Evaluate a solution to a problem. Go through it step by step and name every issue that it \
really has. Its score is 1 if it is complete and every step is right, 0.5 if it is right but leaves out something \
minor, and 0 if it has a fatal flaw.

Problem:
{{{{ problem }}}}

Solution:
{{{{ proof }}}}

{_FORM}
"""
JUDGE_PROMPT = f"""Somebody analysed a solution to a problem. Look up every issue that the analysis names: does the \
solution really have it? The analysis scores 1 if all issues that it names exist, or if it rightly names none, 0.5 if \
some of them exist, and 0 if none of them does.

Problem:
{{{{ problem }}}}

Solution:
{{{{ proof }}}}

Analysis:
{{{{ analysis }}}}

{_FORM}
"""


class EvaluationOptions(Protocol):
    """Options of evaluations; prompts and variables of the chat template are optional (`None`)."""

    evaluate_prompt: str | None
    judge_prompt: str | None
    max_completion_length: int
    temperature: float
    chat_template_kwargs: dict[str, Any] | None


@dataclass(frozen=True)
class ScoreVerifierSettings:
    """
    Prompts and answer settings of a score verifier.

    Args:
        evaluate_prompt: Jinja template over `problem` and `proof` that asks for an evaluation of the proof.
        judge_prompt: Jinja template over `problem`, `proof` and `analysis` that asks a meta-verifier for an evaluation
            of the analysis.
        max_new_tokens: Maximum length of an evaluation, in tokens.
        temperature: Temperature for sampling evaluations.
        chat_template_kwargs: Variables for the model's chat template, e.g. `{"enable_thinking": False}`.
    Raises `ValueError` for a template that is malformed or uses another variable, and for `chat_template_kwargs` that
        are set for every prompt anyway.
    """

    evaluate_prompt: str = EVALUATE_PROMPT
    judge_prompt: str = JUDGE_PROMPT
    max_new_tokens: int = 1024
    temperature: float = 0.8
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        _check("evaluate_prompt", self.evaluate_prompt, {"problem", "proof"})
        _check("judge_prompt", self.judge_prompt, {"problem", "proof", "analysis"})
        check_chat_template_kwargs(self.chat_template_kwargs)

    def prompt(self, row: Mapping[str, Any]) -> str:
        """
        Return the prompt of a row with `problem` and `proof`: about its `analysis`, if any, else about the proof.
        """
        texts = {"problem": row["problem"], "proof": row["proof"]}
        # A row with an analysis is about that analysis, not about the proof.
        if row.get("analysis") is None:
            return compile_template(self.evaluate_prompt).render(texts)
        return compile_template(self.judge_prompt).render(texts, analysis=row["analysis"])

    def render(self, row: Mapping[str, Any], tokenizer: "PreTrainedTokenizerBase") -> str:
        """Render the prompt of a row as the model of `tokenizer` expects it."""
        return render_prompt(self.prompt(row), tokenizer, self.chat_template_kwargs)

    def save(self, folder: Path) -> None:
        (folder / _FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def for_model(
        cls,
        source: str | Path | None,
        options: EvaluationOptions,
        revision: str | None = None,
    ) -> "ScoreVerifierSettings":
        """
        Resolve the prompts and chat settings: those of `options` first, then those saved with `source`, then defaults.
        """
        path = _find(source, revision) if source else None
        # Length and temperature are always the caller's; prompts and chat variables fall back to the stored ones.
        stored = cls() if path is None else read_json(path, cls)
        return cls(
            options.evaluate_prompt or stored.evaluate_prompt,
            options.judge_prompt or stored.judge_prompt,
            options.max_completion_length,
            options.temperature,
            stored.chat_template_kwargs if options.chat_template_kwargs is None else options.chat_template_kwargs,
        )

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether `folder` contains such settings."""
        return (folder / _FILE).exists()

    @classmethod
    def load(cls, source: str | Path, revision: str | None = None) -> "ScoreVerifierSettings":
        """Load the settings stored with a model, in a folder or on the Hub. Raises `ValueError` if there are none."""
        path = _find(source, revision)
        if path is None:
            raise ValueError(
                f"{source} is not a score verifier: it has no {_FILE}, which `ScoreVerifierTrainer` saves with the"
                " weights."
            )
        return read_json(path, cls)


def _find(source: str | Path, revision: str | None) -> Path | None:
    """Locate the settings file: in the folder `source`, or else on the Hub."""
    if Path(source).is_dir():
        path = Path(source) / _FILE
        return path if path.exists() else None
    try:
        return Path(hf_hub_download(str(source), _FILE, revision=revision))
    except (EntryNotFoundError, HFValidationError, OfflineModeIsEnabled, RepositoryNotFoundError):
        return None


def _check(name: str, template: str, known: set[str]) -> None:
    allowed = " and ".join(f"`{variable}`" for variable in sorted(known))
    try:
        unknown = outside_variables(template) - known
    except TemplateError as err:
        raise ValueError(f"`{name}` is a malformed template: {err.message}; it may use {allowed}.") from err
    if unknown:
        raise ValueError(f"`{name}` uses the unknown variable `{min(unknown)}`; it may use {allowed}.")
