"""Labels and notes that people give solutions in the app, kept in the run's folder, for a later game to learn from."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pvg_hf.analyses.form import ALLOWED_SCORES
from pvg_hf.core.data_files import Row, read_file
from pvg_hf.core.disk_names import ANNOTATIONS
from pvg_hf.core.files import Journal
from pvg_hf.core.integrity import convert
from pvg_hf.data.reading import find_value, number_of, text_of

Scores = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Annotation:
    """Label and note that a person gave a solution."""

    key: str  # of the solution in the app
    problem_id: str
    problem: str
    solution: str
    role: str
    round_index: int
    score: float | None  # 0 incorrect, 0.5 partly correct or undecided, 1 correct; `None` without a label
    note: str
    time: str  # ISO 8601

    def __post_init__(self):
        if self.score is not None and self.score not in ALLOWED_SCORES:
            raise ValueError(f"`score` must be 0, 0.5, 1 or null; got {self.score!r}")


def append_annotation(root: Path, annotation: Annotation) -> None:
    """Add a label and note to a run's annotations. Raises `OSError` if the folder cannot be written."""
    Journal(root / ANNOTATIONS).append(asdict(annotation))


def read_annotations(root: Path) -> tuple[dict[str, Annotation], list[int]]:
    """
    Read a run's annotations by the solutions' keys; those without a label or a note were taken back.

    Returns them, and the numbers of the lines that are not annotations, from 1.
    """
    path, found, odd = root / ANNOTATIONS, {}, []
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            one = convert(json.loads(line), Annotation)
        except (ValueError, RecursionError):
            odd += [number] if line.strip() else []
        else:
            found[one.key] = one
    return {key: one for key, one in found.items() if one.score is not None or one.note}, odd


def read_scores(source: str) -> Scores:
    """
    Read the labels that people gave solutions.

    Args:
        source: A run's folder, or a file for [`~pvg_hf.core.data_files.read_file`] with at least `problem_id`,
            `solution` and `score` (0, 0.5, 1 or null). The last row about a solution counts.
    Returns: the score of each pair of a problem's id and a solution's text. Null takes an earlier label back.
    Raises `ValueError` if there is no such file, or a row is malformed; the message gives its place.
    """
    path = Path(source)
    path = path / ANNOTATIONS if path.is_dir() else path
    scores = {
        (text_of(place, row, "problem_id"), text_of(place, row, "solution")): _read_score(place, row)
        for place, row in read_file(path, advice="Label solutions in the app (`pvg show RUN`), or name another file.")
    }
    return {place: score for place, score in scores.items() if score is not None}


def _read_score(place: str, row: Row) -> float | None:
    value = find_value(place, row, "score")
    score = number_of(place, "score", value)
    if isinstance(value, bool) or not (score is None or score in ALLOWED_SCORES):
        raise ValueError(f"{place}: `score` must be 0, 0.5, 1 or null; got {value!r:.80}")
    return score
