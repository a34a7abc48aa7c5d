"""Writes study sheets as CSV for people without the app, and reads them back with the answers."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from pvg_hf.core.spreadsheets import escape_cell, read_decimal, read_table
from pvg_hf.experimental.study.participants import CONFIDENCES, Judgment, Study
from pvg_hf.report.escaping import reveal

STUDY_COLUMNS = ("participant", "position", "item", "problem", "solution", "judgment", "confidence", "seconds")

MAX_CHARACTERS = 10_000_000


class SheetError(ValueError):
    """A sheet that cannot be recorded; the message lists every mistake."""


@dataclass(frozen=True)
class _Answer:
    participant: str
    item: str
    judgment: Judgment
    confidence: int | None
    seconds: float | None


def write_sheets(study: Study, participants: Sequence[str]) -> str:
    """
    Write the sheets of some participants as CSV, with empty columns for their answers.

    The sheets do not reveal who wrote a solution. Invisible characters are written as code points, e.g. `[U+202E]`. A
    text that a spreadsheet would run as a formula gets a leading apostrophe.

    Args:
        study: The study; it draws the sheets of new participants.
    Raises `ValueError` if the study has no places for all of them; no sheet is drawn then.
    """
    study.check_places(sum(not study.knows(participant) for participant in participants))
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(STUDY_COLUMNS)
    for participant in participants:
        for position, item in enumerate(study.sheet(participant), start=1):
            texts = (escape_cell(reveal(item.problem)), escape_cell(reveal(item.solution)))
            writer.writerow((participant, position, item.item, *texts, "", "", ""))
    return file.getvalue()


def read_sheets(study: Study, text: str) -> tuple[int, int]:
    """
    Record the answers on filled-in sheets, either all of them or none.

    Args:
        text: A CSV file, separated by commas or semicolons, with at least the columns `participant`, `item` and
            `judgment` (`correct`, `flawed`, `time ran out`, or empty if not answered). Optional columns are
            `confidence` (1 to 3) and `seconds`; both may be empty.
    Returns: the number of new answers, and of those already known.
    Raises `SheetError` if a row is invalid (all are listed), or the file is not CSV or too large.
    """
    if len(text) > MAX_CHARACTERS:
        raise SheetError(f"The file has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read.")
    answers, mistakes = [], []
    try:
        rows = read_table(text, ("participant", "item", "judgment"))
    except ValueError as err:
        raise SheetError(f"Nothing was recorded; the file {err} A sheet has {list(STUDY_COLUMNS)}.") from err
    for number, row in rows:
        try:
            answer = _read_row(study, row)
        except ValueError as err:
            mistakes.append(f"Row {number}: {err}")
        else:
            answers += [answer] if answer else []
    if mistakes:
        raise SheetError("\n".join([f"Nothing was recorded; invalid rows: {len(mistakes)}.", *mistakes[:20]]))
    taken = [study.record_sheet_answer(a.participant, a.item, a.judgment, a.confidence, a.seconds) for a in answers]
    return sum(taken), len(taken) - sum(taken)


def _read_row(study: Study, row: dict[str, str]) -> _Answer | None:
    said = {name: row.get(name, "").strip() for name in STUDY_COLUMNS}
    if not said["judgment"]:
        return None
    judgment = said["judgment"].lower().replace(" ", "_")
    if judgment not in set(Judgment):
        raise ValueError(f"judgment {said['judgment'][:40]!r}; allowed: correct, flawed, time ran out.")
    if not study.knows(said["participant"]):
        raise ValueError(f"participant {said['participant'][:40]!r} has no sheet in this study.")
    if said["item"] not in {item.item for item in study.sheet(said["participant"])}:
        raise ValueError(f"item {said['item'][:40]!r} is not on the sheet of {said['participant']}.")
    is_late = judgment == Judgment.TIME_RAN_OUT
    confidence = None if is_late else _confidence(said["confidence"])
    return _Answer(
        said["participant"], said["item"], Judgment(judgment), confidence, _seconds(said["seconds"], study.seconds)
    )


def _confidence(text: str) -> int | None:
    if text and text not in map(str, CONFIDENCES):
        raise ValueError(f"confidence {text[:40]!r}; allowed: {', '.join(map(str, CONFIDENCES))}, or nothing.")
    return int(text) if text else None


def _seconds(text: str, limit: float) -> float | None:
    seconds = read_decimal(text) if text else None
    if seconds is not None and not 0 <= seconds <= limit:
        raise ValueError(f"seconds {text[:40]!r}; allowed: 0 to {limit:g}, or nothing. Later ones `time ran out`.")
    return seconds
