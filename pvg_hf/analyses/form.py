"""
The form of a written evaluation (DeepSeekMath-V2, 2025): an opening and a closing sentence, an analysis and a boxed
score.
"""

import math
import re
from dataclasses import dataclass

OPENING = "Here is my evaluation of the solution:"
CLOSING = "Based on my evaluation, the final overall score should be:"
ALLOWED_SCORES = (0.0, 0.5, 1.0)

# `\boxed` followed by a letter would be another command.
_BOX_START = re.compile(r"\\boxed(?![A-Za-z])")
_BRACE = re.compile(r"\s*\{")
_BOX = re.compile(r"\s*\{(?P<content>[^{}]*)\}")
_SCORE = re.compile(r"(?P<zero>0(?:\.0+)?)|(?P<half>0?\.50*)|(?P<one>1(?:\.0+)?)", re.ASCII)
_VALUES = {"zero": 0.0, "half": 0.5, "one": 1.0}


@dataclass(frozen=True)
class Evaluation:
    """
    An evaluation as parsed from a text.

    Args:
        analysis: The text between the two sentences; `None` unless the form is kept.
        score: The allowed score (0, 0.5 or 1) in the first box after the closing sentence; `None` if there is none.
        is_cut: Whether the text reached its maximum length. Nothing is parsed then, since another score might have
            followed.
    """

    analysis: str | None
    score: float | None
    is_cut: bool = False

    @property
    def has_form(self) -> bool:
        """Whether the text has both sentences in order and an allowed score in the first box after the second."""
        return self.analysis is not None


def read_evaluation(text: str, *, is_cut: bool = False) -> Evaluation:
    """
    Parse an evaluation.

    The first opening sentence, the first closing sentence after it and the first box after that count; boxes within
    the analysis do not. Any run of white space equals any other.

    Args:
        is_cut: Whether it reached its maximum length without an end token.
    """
    # A text without an end may be about to revise its score.
    if is_cut:
        return Evaluation(None, None, is_cut=True)
    opening = _OPENING.search(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    score = _first_score(text, closing or _CLOSING.search(text))
    if opening is None or closing is None or score is None:
        return Evaluation(None, score)
    return Evaluation(text[opening.end() : closing.start()].strip(), score)


def text_before_evaluation(text: str) -> str:
    """Return the text before the opening sentence: the proof, if its prover added its own evaluation."""
    opening = _OPENING.search(text)
    return text[: opening.start()].rstrip() if opening else text


def text_before_score(text: str) -> str | None:
    """
    Return the text up to the content of the first box after the closing sentence; `None` if there is no such box.
    """
    opening = _OPENING.search(text)
    closing = (_CLOSING.search(text, opening.end()) if opening else None) or _CLOSING.search(text)
    start = _BOX_START.search(text, closing.end()) if closing else None
    brace = _BRACE.match(text, start.end()) if start else None
    return text[: brace.end()] if brace else None


def write_evaluation(analysis: str, score: float) -> str:
    """Write an evaluation that [`read_evaluation`] parses to `analysis` and `score` (0, 0.5 or 1)."""
    return f"{OPENING}\n{analysis}\n{CLOSING}\n\\boxed{{{score:g}}}"


def is_reference_score(value: object) -> bool:
    """Whether `value` is a reference score: 0, 0.5, 1, or unknown (`None` or NaN)."""
    if value is None:
        return True
    return isinstance(value, int | float) and (math.isnan(value) or value in ALLOWED_SCORES)


def _any_space(sentence: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, sentence.removesuffix(":").split())) + r"\s*:")


_OPENING, _CLOSING = _any_space(OPENING), _any_space(CLOSING)


def _first_score(text: str, closing: re.Match[str] | None) -> float | None:
    start = _BOX_START.search(text, closing.end()) if closing else None
    box = _BOX.match(text, start.end()) if start else None
    written = _SCORE.fullmatch(box["content"].strip()) if box else None
    return _VALUES[written.lastgroup] if written and written.lastgroup else None
