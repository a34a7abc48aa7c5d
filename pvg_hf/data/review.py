"""The review file: proofs without an automatic label, for a person to score in a spreadsheet or an editor."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.analyses.scaled import CheckedAnalysis
from pvg_hf.core.files import replacing
from pvg_hf.core.spreadsheets import escape_cell, read_decimal, read_table

_COLUMNS = ("key", "score", "problem", "proof", "predicted", "analyses")


@dataclass(frozen=True)
class ReviewItem:
    """A proof to be scored by a person."""

    key: str
    problem: str
    proof: str
    analyses: Sequence[CheckedAnalysis]  # by the verifiers, as information for the person


def read_review(path: Path) -> dict[str, float]:
    """
    Read the scores that people filled in.

    Args:
        path: A file from [`write_review`] that a person edited; with commas or semicolons, since spreadsheets use
            both.
    Returns: the score of each key. Empty scores are omitted; a missing file has none.
    Raises `ValueError` if a column is missing, a score is not 0, 0.5 or 1 (the message names the row), or the file is
        not UTF-8.
    """
    return {row["key"]: float(row["score"]) for row in _scored_rows(path)}


def write_review(path: Path, items: Iterable[ReviewItem], scores: Mapping[str, float]) -> None:
    """
    Rewrite the review file atomically. Scores that people filled in are kept, even of proofs that are no longer items.

    Args:
        items: Proofs to be scored, including those that people have scored already.
        scores: Scores that people gave to items which are no longer in the file, by key.
    Raises `ValueError` as for [`read_review`], before anything is written.
    """
    scored = {row["key"]: row for row in _scored_rows(path)}
    known = {key: {"score": f"{score:g}"} for key, score in scores.items()}
    rows = [_row(item, scored.pop(item.key, known.get(item.key, {"score": ""}))["score"]) for item in items]
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows([*rows, *scored.values()])


def _scored_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows that a person filled in, with each score as `0`, `0.5` or `1`."""
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as err:
        raise ValueError(f"{path} is not UTF-8; save it as `CSV UTF-8`.") from err
    try:
        rows = read_table(text, ("key", "score"))
    except ValueError as err:
        raise ValueError(f"{path} {err}") from err
    return [{**row, "score": _read_score(path, number, row["score"])} for number, row in rows if row["score"].strip()]


def _row(item: ReviewItem, score: str) -> dict[str, str]:
    return {
        "key": item.key,
        "score": score,
        "problem": escape_cell(item.problem),
        "proof": escape_cell(item.proof),
        "predicted": " ".join("?" if a.score is None else f"{a.score:g}" for a in item.analyses),
        "analyses": escape_cell("\n\n".join(_show_analysis(analysis) for analysis in item.analyses)),
    }


def _show_analysis(analysis: CheckedAnalysis) -> str:
    said = ", ".join("no score" if quality is None else f"{quality:g}" for quality in analysis.qualities)
    return f"{analysis.text}\n(checks: {said})" if said else analysis.text


def _read_score(path: Path, number: int, written: str) -> str:
    score = read_decimal(written)
    if score not in ALLOWED_SCORES:
        raise ValueError(
            f"{path}, row {number}: a score must be 0, 0.5, 1 or empty; found `{written}`. Correct it and start again."
        )
    return f"{score:g}"
