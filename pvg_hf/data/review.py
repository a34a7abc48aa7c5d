"""The review file: proofs that nobody could label, for a person to score in a spreadsheet or an editor."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.analyses.scaled import CheckedAnalysis
from pvg_hf.core.files import replacing
from pvg_hf.core.spreadsheets import escape_cell, open_table

_COLUMNS = ("key", "score", "problem", "proof", "predicted", "analyses")


@dataclass(frozen=True)
class ReviewItem:
    """
    A proof that waits for a person.

    Args:
        key (`str`):
            Names the proof.
        problem (`str`), proof (`str`):
            Texts.
        analyses (`Sequence[CheckedAnalysis]`):
            What the verifiers said, for the person to read.
    """

    key: str
    problem: str
    proof: str
    analyses: Sequence[CheckedAnalysis]


def read_review(path: Path) -> dict[str, float]:
    """
    What people filled in.

    Args:
        path (`Path`):
            A file that [`write_review`] wrote and a person edited; commas or semicolons, as spreadsheets save them.

    Returns:
        `dict[str, float]`: the score of each key; those left empty are left out, and a file that is not there has none.

    Raises:
        ValueError: if a column is gone, or a score is not 0, 0.5 or 1 (the row is named), or the file is not UTF-8.
    """
    return {row["key"]: float(row["score"]) for row in _scored_rows(path)}


def write_review(path: Path, items: Iterable[ReviewItem], scores: Mapping[str, float]) -> None:
    """
    Write the review file anew, whole or not at all. What people filled in stays, also for a proof that is not among the
    items any more.

    Args:
        path (`Path`):
            Replaced.
        items (`Iterable[ReviewItem]`):
            What waits, and what people have scored already.
        scores (`Mapping[str, float]`):
            What people said of items that the file does not have any more, by key.

    Raises:
        ValueError: as [`read_review`], before anything is written.
    """
    scored = {row["key"]: row for row in _scored_rows(path)}
    known = {key: {"score": f"{score:g}"} for key, score in scores.items()}
    rows = [_row(item, scored.pop(item.key, known.get(item.key, {"score": ""}))["score"]) for item in items]
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows([*rows, *scored.values()])


def _scored_rows(path: Path) -> list[dict[str, str]]:
    """The lines that a person filled in, each score as `0`, `0.5` or `1`."""
    if not path.exists():
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as err:
        raise ValueError(f"{path} is not UTF-8; save it as `CSV UTF-8`.") from err
    with open_table(text) as reader:
        missing = {"key", "score"}.difference(reader.fieldnames or ())
        if missing:
            raise ValueError(
                f"{path} lacks the column(s) {sorted(missing)}; it has {reader.fieldnames}. Put them back."
            )
        return [
            {**row, "score": _read_score(path, number, row["score"])}
            for number, row in enumerate(reader, start=2)  # as a spreadsheet counts
            if (row["score"] or "").strip()
        ]


def _row(item: ReviewItem, score: str) -> dict[str, str]:
    return {
        "key": item.key,
        "score": score,
        "problem": escape_cell(item.problem),
        "proof": escape_cell(item.proof),
        "predicted": " ".join("?" if a.score is None else f"{a.score:g}" for a in item.analyses),
        "analyses": escape_cell("\n\n".join(_told(analysis) for analysis in item.analyses)),
    }


def _told(analysis: CheckedAnalysis) -> str:
    said = ", ".join("no score" if quality is None else f"{quality:g}" for quality in analysis.qualities)
    return f"{analysis.text}\n(checks: {said})" if said else analysis.text


def _read_score(path: Path, number: int, written: str) -> str:
    try:
        score = float(written.replace(",", "."))
    except ValueError:
        score = -1.0
    if score not in ALLOWED_SCORES:
        raise ValueError(
            f"{path}, row {number}: a score is 0, 0.5 or 1, or is left empty; found `{written}`. Correct it and start again."
        )
    return f"{score:g}"
