"""A study as it is run: who was given what, what is on show, and what was answered."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from pvg_hf.core.files import Journal
from pvg_hf.study import MAX_PARTICIPANTS, SECONDS
from pvg_hf.study.items import StudyItem

GRACE_SECONDS = 2.0
"""How much later than the limit an answer may arrive: it was given in time, and took its way through the network."""

CONFIDENCES = (1, 2, 3)
"""1 = a guess, 3 = sure."""

_ITEM_FIELDS = {field.name for field in fields(StudyItem)}
_ANSWER_FIELDS = {"problem_id", "round_index", "role", "correct", "judgment", "seconds"}
_PARTICIPANT = re.compile(r"[\w.-]{1,64}", re.ASCII)
DrawSheet = Callable[[str, Counter[str]], list[StudyItem]]


class Judgment(StrEnum):
    """What a participant said of a solution. The codes are stable: answers and sheets hold them."""

    CORRECT = "correct"
    FLAWED = "flawed"
    TIME_RAN_OUT = "time_ran_out"


@dataclass(frozen=True)
class Progress:
    """
    Where a participant stands.

    Args:
        num_done (`int`), num_items (`int`):
            Solutions answered, and on the sheet.
        item ([`StudyItem`], *optional*):
            The next one; `None` at the end.
        seconds_left (`float`, *optional*):
            On its clock, from the first time that it was shown; `None` before that.
        has_run_out (`bool`, *optional*, defaults to `False`):
            Whether the time of the last solution was found to be over just now, with no answer to it.
    """

    num_done: int
    num_items: int
    item: StudyItem | None
    seconds_left: float | None
    has_run_out: bool = False


class Study:
    """
    Keeps three files in a folder, each line on the disk before anything else happens: `sheets.jsonl` (what each
    participant was given, texts included), `shown.jsonl` (when a solution was first shown) and `answers.jsonl`.

    The clock of a solution starts when it is first shown and goes on through reloads. It starts again, and the answer
    says so in `num_shown`, if the process that showed it has ended.

    Args:
        folder (`Path`):
            Made with the first sheet. One process at a time may use it.
        draw (`Callable[[str, Counter[str]], list[StudyItem]]`):
            A new participant's solutions, given how often each item was given so far.
        seconds (`float`, *optional*, defaults to `45.0`):
            The time for a solution (K24).
        max_participants (`int`, *optional*, defaults to 200):
            How many sheets are drawn at most.
        lock (`AbstractContextManager`, *optional*):
            Held while a file is written, e.g. that of a [`~huggingface_hub.CommitScheduler`].
        hold (`Callable[[], object]`, *optional*):
            Called once, before the folder is read or made, e.g. to lock it.
        clock (`Callable[[], float]`, *optional*):
            Seconds since the epoch.

    Raises:
        ValueError: if a file has a line that no study wrote.
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
        lock = nullcontext() if lock is None else lock
        self._sheets, self._shown, self._answers = (
            Journal(folder / f"{name}.jsonl", lock) for name in ("sheets", "shown", "answers")
        )
        self.folder, self.seconds, self.max_participants = folder, seconds, max_participants
        self._draw, self._clock = draw, clock
        self._guard = threading.RLock()
        self._hold = hold
        self._started: dict[tuple[str, str], float] = {}  # clocks that this process has started
        self._num_shown: Counter[tuple[str, str]] = Counter()
        self._given: dict[str, list[StudyItem]] = {}
        self._answered: dict[tuple[str, str], dict[str, Any]] = {}
        self._is_open = False
        if folder.exists():  # looking at a run leaves nothing in its folder
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
            if row["items"]  # an empty sheet, of someone who came before the first solutions, is drawn again
        }
        self._answered = {(row["participant"], row["item"]): row for row in _read(self._answers, _is_answer)}
        self._is_open = True

    def knows(self, participant: str) -> bool:
        """Whether someone has a sheet."""
        return participant in self._given

    def sheet(self, participant: str) -> list[StudyItem]:
        """
        A participant's solutions in their order, drawn when they are first asked for. A sheet is kept once it has
        solutions: who comes before there are any has an empty one until then.

        Raises:
            ValueError: for an id that [`check_participant`] refuses, if the study is full, or its folder cannot be opened.
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
        """
        Raises:
            ValueError: if the study cannot take so many further participants.
        """
        with self._guard:
            self._open()
            num_left = self.max_participants - len(self._given)
        if number > num_left:
            raise ValueError(
                f"The study has room for {max(0, num_left)} further participants: {self.max_participants} may take part "
                "(`--study-participants`)."
            )

    def progress(self, participant: str) -> Progress:
        """Where a participant stands. A solution whose time is over is noted as such."""
        with self._guard:
            has_run_out = self._end_overdue(participant)
            items = self.sheet(participant)
            left = [item for item in items if (participant, item.item) not in self._answered]
            item = left[0] if left else None
            start = self._started.get((participant, item.item)) if item else None
            seconds_left = None if start is None else max(0.0, start + self.seconds - self._clock())
            return Progress(len(items) - len(left), len(items), item, seconds_left, has_run_out)

    def show(self, participant: str) -> Progress:
        """The next solution, its clock started."""
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
        Record an answer to the solution on show.

        Args:
            participant (`str`), item_id (`str`):
                Who, and of which solution.
            judgment ([`Judgment`]):
                One that arrives too late is recorded as `TIME_RAN_OUT`. A `TIME_RAN_OUT` that arrives before this
                study's own clock says so is not recorded.
            confidence (`int`, *optional*):
                One of `CONFIDENCES`; `None` when time ran out.

        Returns:
            [`Judgment`], *optional*: what was recorded. `None` if nothing was: of a second answer to a solution, of one to
            a solution that was never shown, and of a time-out before its time.
        """
        with self._guard:
            start = self._started.get((participant, item_id))
            if start is None or (participant, item_id) in self._answered:
                return None
            seconds = self._clock() - start
            if judgment is Judgment.TIME_RAN_OUT and seconds < self.seconds:
                return None
            if seconds > self.seconds + GRACE_SECONDS:
                judgment = Judgment.TIME_RAN_OUT
            if judgment is Judgment.TIME_RAN_OUT:
                confidence = None
            self._take_down(participant, item_id, judgment, confidence, min(seconds, self.seconds), "app")
            return judgment

    def take_down(
        self, participant: str, item_id: str, judgment: Judgment, confidence: int | None, seconds: float | None
    ) -> bool:
        """As [`answer`], for what was answered on paper: nothing is timed."""
        with self._guard:
            if (participant, item_id) in self._answered:
                return False
            self._take_down(participant, item_id, judgment, confidence, seconds, "sheet")
            return True

    def answers(self) -> list[dict[str, Any]]:
        """All answers, in the order in which they came."""
        with self._guard:
            return list(self._answered.values())

    def _end_overdue(self, participant: str) -> bool:
        """Note the solutions whose time is over; returns whether there was one."""
        has_run_out = False
        for (who, item_id), start in list(self._started.items()):
            is_over = self._clock() - start > self.seconds + GRACE_SECONDS
            if who == participant and is_over and (who, item_id) not in self._answered:
                self._take_down(who, item_id, Judgment.TIME_RAN_OUT, None, self.seconds, "app")
                has_run_out = True
        return has_run_out

    def _take_down(
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
                f"{journal.path} has a line that no study wrote: {json.dumps(row)[:120]}. Take it out, or keep the study's "
                "files in a folder of their own (--study-dir), and start the app again."
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
    """
    Raises:
        ValueError: for a name that could not stand in a link or a file.
    """
    if not _PARTICIPANT.fullmatch(participant):
        raise ValueError(
            f"The participant's id {participant[:80]!r} must have 1 to 64 letters, digits, `_`, `.` and `-`."
        )
