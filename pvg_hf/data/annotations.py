"""Labels and notes that people give solutions in the app, kept in the run's folder, for a later game to learn from."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.core.disk_names import ANNOTATIONS
from pvg_hf.core.files import Journal

Scores = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Annotation:
    """What a person said of a solution."""

    key: str  # of the solution in the app
    problem_id: str
    problem: str
    solution: str
    role: str
    round_index: int
    score: float | None  # 0 incorrect, 0.5 partly correct or undecided, 1 correct; `None` without a label
    note: str
    time: str  # ISO 8601


def append_annotation(root: Path, annotation: Annotation) -> None:
    """Add what a person said to a run's annotations. Raises `OSError` if the folder cannot be written."""
    Journal(root / ANNOTATIONS).append(asdict(annotation))


def read_annotations(root: Path) -> dict[str, Annotation]:
    """Read a run's annotations by the solutions' keys; those without a label or a note were taken back."""
    rows = [row for row in Journal(root / ANNOTATIONS).read() if row.keys() == Annotation.__dataclass_fields__.keys()]
    found = {row["key"]: Annotation(**row) for row in rows}
    return {key: one for key, one in found.items() if one.score is not None or one.note}


def read_scores(source: str) -> Scores:
    """
    Read the labels that people gave solutions.

    Args:
        source: A run's folder, or a file of JSON lines with at least `problem_id`, `solution` and `score` (0, 0.5, 1
            or null). The last line about a solution counts.
    Returns: the score of each pair of a problem's id and a solution's text. Null takes an earlier label back.
    Raises `ValueError` if there is no such file, or a line is malformed; the message gives its number.
    """
    path = Path(source)
    path = path / ANNOTATIONS if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"there is no file {path}; label solutions in the app (`pvg show RUN`), or name another file")
    scores = dict(_iterate_scores(path))
    return {place: score for place, score in scores.items() if score is not None}


def _iterate_scores(path: Path) -> Iterator[tuple[tuple[str, str], float | None]]:
    rows, num_lost = Journal(path).scan()
    if num_lost:
        raise ValueError(f"{num_lost} line(s) of {path} hold no JSON object; correct or delete them")
    for number, row in enumerate(rows, start=1):
        yield _read_place(path, number, row), _read_score(path, number, row)


def _read_place(path: Path, number: int, row: Mapping[str, Any]) -> tuple[str, str]:
    texts = [row.get(name) for name in ("problem_id", "solution")]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path}, line {number}: `problem_id` and `solution` must be texts; the line has {list(row)}")
    return str(texts[0]), str(texts[1])


def _read_score(path: Path, number: int, row: Mapping[str, Any]) -> float | None:
    score = row.get("score", "missing")
    if score is not None and (isinstance(score, bool) or score not in ALLOWED_SCORES):
        raise ValueError(f"{path}, line {number}: `score` must be 0, 0.5, 1 or null; got {score!r:.80}")
    return None if score is None else float(score)
