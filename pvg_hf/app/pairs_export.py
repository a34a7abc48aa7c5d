"""Writes selected solutions to a file of JSON lines: as they are, or in the columns that TRL's trainers expect."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pvg_hf.app.index import SCORES, ListedSolution, SolutionIndex
from pvg_hf.app.links import View
from pvg_hf.core.files import write_text

Row = dict[str, Any]

MAX_ROWS = 50_000


def write_export(index: SolutionIndex, view: View, kind: str, folder: Path) -> tuple[Path, int]:
    """
    Write the selected solutions of a view, or all of its query if none is selected, into a folder.

    Returns: the file, and its number of rows.

    Raises:
        ValueError: if there are more than `MAX_ROWS` solutions, if none of the selected ones is in the run, or if none
            can be in the format.
    """
    num_asked = len(view.selected) or index.count(view.query)
    if num_asked > MAX_ROWS:
        raise ValueError(
            f"{num_asked:,} solutions are asked for; at most {MAX_ROWS:,} are exported. Filter, or select rows."
        )
    selected = [index.find_key(key) for key in view.selected]
    listed = [one for one in selected if one is not None] if selected else index.find(view.query)
    if selected and not listed:
        raise ValueError(f"None of the {len(selected):,} selected solutions is in this run. Select others.")
    rows = list(FORMATS[kind](listed, index.read([one.place for one in listed]) if listed else []))
    if not rows:
        raise ValueError(
            f"None of the {len(listed):,} solutions can be exported as {kind}. SFT needs correct ones; DPO "
            "needs a correct and an incorrect one to the same problem."
        )
    # A folder of its own: two visitors may export at once.
    path = Path(mkdtemp(dir=folder)) / f"solutions-{kind.split()[0].lower()}.jsonl"
    write_text(path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False, default=str) + "\n" for row in rows))
    return path, len(rows)


def _as_they_are(listed: Sequence[ListedSolution], rows: Sequence[Row]) -> Iterator[Row]:
    for one, row in zip(listed, rows):
        judged = {"score": one.score, "accepted": one.accepted, "fooled_by": list(one.fooled_by)}
        known = {name: None if value != value else value for name, value in row.items()}  # NaN is not equal to itself
        yield {"key": one.key, **known, **judged, "person_score": one.person_score, "note": one.note}


def _dpo(listed: Sequence[ListedSolution], rows: Sequence[Row]) -> Iterator[Row]:
    """Pair the correct solutions of each problem with incorrect ones, the most convincing of either first."""
    sides: dict[tuple[str, bool], list[tuple[float, Row]]] = {}
    for one, row in _judged(listed, rows):
        score = float("-inf") if one.score is None else one.score
        sides.setdefault((one.problem_id, _is_correct(one)), []).append((score, row))
    for (problem_id, is_correct), found in sides.items():
        if is_correct:
            ranked = [sorted(some, key=lambda pair: -pair[0]) for some in (found, sides.get((problem_id, False), []))]
            for (_, chosen), (_, rejected) in zip(*ranked):
                texts = {"chosen": chosen["solution"], "rejected": rejected["solution"]}
                yield {"prompt": chosen["problem"], **texts}


def _sft(listed: Sequence[ListedSolution], rows: Sequence[Row]) -> Iterator[Row]:
    for one, row in _judged(listed, rows):
        if _is_correct(one):
            yield {"prompt": row["problem"], "completion": row["solution"]}


def _kto(listed: Sequence[ListedSolution], rows: Sequence[Row]) -> Iterator[Row]:
    for one, row in _judged(listed, rows):
        yield {"prompt": row["problem"], "completion": row["solution"], "label": _is_correct(one)}


def _judged(listed: Sequence[ListedSolution], rows: Sequence[Row]) -> Iterator[tuple[ListedSolution, Row]]:
    """Leave out solutions that failed, since they show no mistake, and those that a person labelled partly correct."""
    return (
        (one, row)
        for one, row in zip(listed, rows)
        if not one.has_failed and one.person_score != SCORES["partly correct"]
    )


def _is_correct(one: ListedSolution) -> bool:
    """Whether a solution is correct by a person's label, or else by its grade."""
    return one.correct if one.person_score is None else one.person_score == SCORES["correct"]


FORMATS: dict[str, Callable[[Sequence[ListedSolution], Sequence[Row]], Iterator[Row]]] = {
    "JSONL": _as_they_are,
    "DPO pairs": _dpo,
    "SFT pairs": _sft,
    "KTO": _kto,
}
"""Formats by name, as functions of solutions and their full rows."""
