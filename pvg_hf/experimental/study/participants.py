"""Runs a study: gives participants their sheets, shows solutions against the clock, and records answers."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from pvg_hf.core.files import Journal
from pvg_hf.experimental.study import MAX_PARTICIPANTS, SECONDS
from pvg_hf.experimental.study.items import StudyItem

GRACE_SECONDS = 2.0
"""Tolerance for late answers: an answer given in time needs some time to arrive over the network."""

CONFIDENCES = (1, 2, 3)
"""Allowed confidences, from 1 (a guess) to 3 (sure)."""

_ITEM_FIELDS = {field.name for field in fields(StudyItem)}
_ANSWER_FIELDS = {"problem_id", "round_index", "role", "correct", "judgment", "seconds"}
_PARTICIPANT = re.compile(r"[\w.-]{1,64}", re.ASCII)
DrawSheet = Callable[[str, Counter[str]], list[StudyItem]]


class Judgment(StrEnum):
    """A participant's judgment of a solution. The codes are stable, because answers and sheets contain them."""

    CORRECT = "correct"
    FLAWED = "flawed"
    TIME_RAN_OUT = "time_ran_out"


@dataclass(frozen=True)
class Progress:
    """
    Progress of a participant.

    Args:
        num_done, num_items: Number of solutions answered, and number on the sheet.
        item: The next solution; `None` at the end.
        seconds_left: Time left for this solution, counted from when it was first shown; `None` before that.
        has_run_out: Whether this call recorded a timeout of the previous solution.
    """

    num_done: int
    num_items: int
    item: StudyItem | None
    seconds_left: float | None
    has_run_out: bool = False


class Study:
    """
    A study, stored in three files of a folder.

    The files are `sheets.jsonl` (each participant's solutions, texts included), `shown.jsonl` (when a solution was
    first shown) and `answers.jsonl`. Each line is on disk before its effect is visible.

    The clock of a solution starts when it is first shown and keeps running through reloads. If the process that showed
    it has ended, the clock starts again, and `num_shown` of the answer counts this.

    Args:
        folder: Folder of the files, made with the first sheet. Only one process at a time may use it.
        draw: Draws a new participant's solutions, given how often each item was given so far.
        seconds: Time limit for a solution (Kirchner et al. 2024).
        max_participants: Maximum number of sheets.
        lock: Held while a file is written, e.g. the lock of a [`~huggingface_hub.CommitScheduler`].
        hold: Called once, before the folder is read or made, e.g. to lock it.
    Raises `ValueError` if a file has a line that is not from a study.
    """

    def __init__(
        self,
        folder: Path,
        draw: DrawSheet,
        *,
        seconds: float = SECONDS,
        max_participants: int = MAX_PARTICIPANTS,
        lock: AbstractContextManager | None = None,
        hold: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.time,
    ):
        self._sheets, self._shown, self._answers = (
            Journal(folder / f"{name}.jsonl", lock) for name in ("sheets", "shown", "answers")
        )
        self.folder, self.seconds, self.max_participants = folder, seconds, max_participants
        self._draw, self._clock = draw, clock
        self._guard = threading.RLock()  # visitors' requests arrive in several threads
        self._hold = hold
        self._started: dict[tuple[str, str], float] = {}  # clocks that this process has started
        self._num_shown: Counter[tuple[str, str]] = Counter()
        self._given: dict[str, list[StudyItem]] = {}
        self._answered: dict[tuple[str, str], dict[str, Any]] = {}
        self._is_open = False
        if folder.exists():  # never made here: looking at a run must not change its folder
            self._open()

    def _open(self) -> None:
        if self._is_open:
            return
        if self._hold is not None:
            self._hold()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._num_shown = Counter((row["participant"], row["item"]) for row in _read(self._shown, _is_shown))
        self._given = {
            row["participant"]: [StudyItem(**item) for item in row["items"]]
            for row in _read(self._sheets, _is_sheet)
            if row["items"]  # a sheet drawn before there were any solutions is empty, and is drawn again
        }
        self._answered = {(row["participant"], row["item"]): row for row in _read(self._answers, _is_answer)}
        self._is_open = True

    def knows(self, participant: str) -> bool:
        """Whether a participant has a sheet."""
        return participant in self._given

    def sheet(self, participant: str) -> list[StudyItem]:
        """
        A participant's solutions in order, drawn at the first call.

        The sheet is empty, and not stored, as long as the run has no solutions to judge.

        Raises `ValueError` if [`check_participant`] refuses the id, the study is full, or its folder cannot be opened.
        """
        check_participant(participant)
        with self._guard:
            self._open()
            if participant not in self._given:
                self.check_places(1)
                counts = Counter(item.item for items in self._given.values() for item in items)
                items = self._draw(participant, counts)
                if not items:
                    return []
                row = {"participant": participant, "time": self._clock(), "items": [asdict(item) for item in items]}
                self._sheets.append(row)
                self._given[participant] = items
            return self._given[participant]

    def check_places(self, number: int) -> None:
        """Check that `number` more participants can join. Raises `ValueError` if the study has fewer free places."""
        with self._guard:
            self._open()
            num_left = self.max_participants - len(self._given)
        if number > num_left:
            raise ValueError(
                f"The study has {max(0, num_left)} free places: at most {self.max_participants} participants may take"
                " part (`--participants`, and `--study-participants` for a Space)."
            )

    def progress(self, participant: str) -> Progress:
        """Progress of a participant. A shown solution past its time limit is recorded as a timeout."""
        with self._guard:
            has_run_out = self._end_overdue(participant)
            items = self.sheet(participant)
            left = [item for item in items if (participant, item.item) not in self._answered]
            item = left[0] if left else None
            start = self._started.get((participant, item.item)) if item else None
            seconds_left = None if start is None else max(0.0, start + self.seconds - self._clock())
            return Progress(len(items) - len(left), len(items), item, seconds_left, has_run_out)

    def show(self, participant: str) -> Progress:
        """Start the clock of the next solution, and return the participant's progress."""
        with self._guard:
            item = self.progress(participant).item
            if item is not None and (participant, item.item) not in self._started:
                now = self._clock()
                self._shown.append({"participant": participant, "item": item.item, "time": now})
                self._num_shown[participant, item.item] += 1
                self._started[participant, item.item] = now
            return self.progress(participant)

    def answer(self, participant: str, item_id: str, judgment: Judgment, confidence: int | None) -> Judgment | None:
        """
        Record an answer to the currently shown solution.

        Args:
            judgment: The judgment. A late one is recorded as `TIME_RAN_OUT`. A `TIME_RAN_OUT` that arrives before this
                study's own clock has run out is not recorded.
            confidence: One of `CONFIDENCES`; `None` if time ran out.
        Returns: [`Judgment`], *optional*: the recorded judgment. `None` if nothing was recorded: for a second answer,
            for a solution that was never shown, and for a premature timeout.
        """
        with self._guard:
            start = self._started.get((participant, item_id))  # `None` if it was not shown since the app started
            if start is None or (participant, item_id) in self._answered:
                return None
            seconds = self._clock() - start
            if judgment is Judgment.TIME_RAN_OUT and seconds < self.seconds:
                return None
            if seconds > self.seconds + GRACE_SECONDS:
                judgment = Judgment.TIME_RAN_OUT
            if judgment is Judgment.TIME_RAN_OUT:
                confidence = None
            self._record(participant, item_id, judgment, confidence, min(seconds, self.seconds), "app")
            return judgment

    def record_sheet_answer(
        self, participant: str, item_id: str, judgment: Judgment, confidence: int | None, seconds: float | None
    ) -> bool:
        """Record an answer from a CSV sheet, without a clock; returns False if the solution is already answered."""
        with self._guard:
            if (participant, item_id) in self._answered:
                return False
            self._record(participant, item_id, judgment, confidence, seconds, "sheet")
            return True

    def answers(self) -> list[dict[str, Any]]:
        """All answers, in the order of their arrival."""
        with self._guard:
            return list(self._answered.values())

    def _end_overdue(self, participant: str) -> bool:
        """Record a timeout for each shown solution past its limit, and return whether there was one."""
        has_run_out = False
        for (who, item_id), start in list(self._started.items()):
            is_over = self._clock() - start > self.seconds + GRACE_SECONDS
            if who == participant and is_over and (who, item_id) not in self._answered:
                self._record(who, item_id, Judgment.TIME_RAN_OUT, None, self.seconds, "app")
                has_run_out = True
        return has_run_out

    def _record(
        self,
        participant: str,
        item_id: str,
        judgment: Judgment,
        confidence: int | None,
        seconds: float | None,
        source: str,
    ) -> None:
        item = next(item for item in self._given[participant] if item.item == item_id)
        row = {
            "participant": participant,
            "item": item_id,
            "problem_id": item.problem_id,
            "round_index": item.round_index,
            "role": item.role,
            "correct": item.correct,
            "judgment": judgment.value,
            "confidence": confidence,
            "seconds": seconds,
            "num_shown": self._num_shown[participant, item_id],
            "source": source,
            "time": self._clock(),
        }
        self._answers.append(row)
        self._answered[participant, item_id] = row


def _read(journal: Journal, is_one: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    rows = journal.read()
    for row in rows:
        if not is_one(row):
            raise ValueError(
                f"{journal.path} has a line that is not from a study: {json.dumps(row)[:120]}. Remove it, or use a"
                " separate folder for the study (`--dir`), and start the app again."
            )
    return rows


def _is_sheet(row: dict[str, Any]) -> bool:
    items = row.get("items")
    return (
        isinstance(row.get("participant"), str)
        and isinstance(items, list)
        and all(isinstance(item, dict) and item.keys() == _ITEM_FIELDS for item in items)
    )


def _is_shown(row: dict[str, Any]) -> bool:
    return isinstance(row.get("participant"), str) and isinstance(row.get("item"), str)


def _is_answer(row: dict[str, Any]) -> bool:
    return _is_shown(row) and row.keys() >= _ANSWER_FIELDS and row["judgment"] in set(Judgment)


def check_participant(participant: str) -> None:
    """Check that a participant's id can be used in links and files. Raises `ValueError` if it cannot."""
    if not _PARTICIPANT.fullmatch(participant):
        raise ValueError(
            f"The participant's id {participant[:80]!r} must have 1 to 64 letters, digits, `_`, `.` and `-`."
        )
