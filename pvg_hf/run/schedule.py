"""
The phases of a game in order, and their folders.

A phase writes into a staging folder, which is renamed when it is finished. A phase is either complete or absent: complete ones
are kept, all others run again.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import BASE_ROUND, round_index_of
from pvg_hf.core.extensions import suggest
from pvg_hf.core.files import sync_tree, write_json
from pvg_hf.core.integrity import (
    DIGESTS,
    DamagedFileError,
    read_json,
    seal,
    unseal,
    write_digests,
)
from pvg_hf.core.stopwatch import UNKNOWN, Spent, TimeSplit, add_splits, measuring, read_split
from pvg_hf.run.file_names import PHASE_RECORD, REWRITTEN
from pvg_hf.run.folder import RunFolder

ROUND_PHASES = ("verifier", "prover", "mint", "evaluate")
_PHASES = ("warmup", "bootstrap", *ROUND_PHASES)


EXPECTED_ALERTS = {
    "goodharting": "The sneaky role is trained for goodharting: the alert says when the verifier began to give way."
}
"""Kinds of alerts that a good game has too, each with a sentence that says so."""


@dataclass(frozen=True)
class PhaseKey:
    """
    Identifies a phase of a game by its name and its round.

    Args:
        name (`str`):
            `warmup`, `bootstrap`, or one of `ROUND_PHASES`.
        round_index (`int`, *optional*):
            The round, from 0; `None` for the phases before the first round.
    """

    name: str
    round_index: int | None = None

    def __str__(self) -> str:
        return self.name if self.round_index is None else f"round-{self.round_index:03d}/{self.name}"

    @classmethod
    def parse(cls, text: str, round_index: int | None = None) -> "PhaseKey":
        """Parse `round-000/prover`, or `prover` with a separate `round_index`."""
        match = re.fullmatch(r"round-(\d+)/(.+)", text)
        if match is None:
            return cls(text, round_index)
        if round_index not in (None, int(match[1])):
            raise ValueError(
                f"The phase `{text}` and the round {round_index} contradict each other; name the round only once."
            )
        return cls(match[2], int(match[1]))

    @property
    def place(self) -> tuple[int, int]:
        """Key that sorts phases by their order in the game; the phases before the first round are those of round -1."""
        return BASE_ROUND if self.round_index is None else self.round_index, _PHASES.index(self.name)

    def target(self, folder: RunFolder) -> Path:
        """Folder of the phase's results; the phase is finished if it exists."""
        if self.name == "warmup":
            return folder.models
        if self.name == "bootstrap":
            return folder.pool(-1)
        places = {"verifier": folder.verifier, "prover": folder.prover, "mint": folder.pool}
        return places.get(self.name, folder.evaluation)(self.round_index)


def early_phases(recipe: Recipe) -> list[PhaseKey]:
    """Phases before the first round, in order."""
    has_warmup = any(player.is_made for player in recipe.players.values())
    return [PhaseKey(name) for name in (("warmup", "bootstrap") if has_warmup else ("bootstrap",))]


def schedule(recipe: Recipe) -> list[PhaseKey]:
    """All phases of the game, in order."""
    return early_phases(recipe) + [PhaseKey(name, k) for k in range(recipe.num_rounds) for name in ROUND_PHASES]


def choose_phases(recipe: Recipe, name: str | None, round_index: int | None) -> list[PhaseKey]:
    """
    List the phases to play: all of them, or the one with a name and a round.

    Raises:
        ValueError: if there is no such phase; the message suggests one.
    """
    phases = schedule(recipe)
    if name is None:
        if round_index is not None:
            raise ValueError(
                f"Round {round_index} was named without a phase. Name the phase too (`--phase prover --round "
                f"{round_index}`), or neither: the whole game is then played, up to `num_rounds`."
            )
        return phases
    wanted = PhaseKey.parse(name, round_index)
    if wanted not in phases:
        raise ValueError(f"The game has no phase `{wanted}`. {_suggest_phase(wanted, phases)}")
    return [wanted]


def _suggest_phase(wanted: PhaseKey, phases: list[PhaseKey]) -> str:
    rounds = [key.round_index for key in phases if key.name == wanted.name]
    if rounds and rounds[0] is None:
        return f"`{wanted.name}` comes before the first round: name no round, `--phase {wanted.name}`."
    if rounds and wanted.round_index is None:
        return f"Every round has one: name the round too, e.g. `--phase {wanted.name} --round {rounds[-1]}`."
    if rounds:
        return f"Its rounds are 0 to {rounds[-1]}; for this one, give `num_rounds={wanted.round_index + 1}`, too."
    return suggest(wanted.name, sorted({key.name for key in phases}))


def num_phases(recipe: Recipe) -> int:
    """Length of the [`schedule`]."""
    return len(early_phases(recipe)) + recipe.num_rounds * len(ROUND_PHASES)


def finished_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """Finished phases of a run, in order."""
    # List the folders instead of checking the schedule, which may have many more rounds than were played.
    early = [key for key in early_phases(recipe) if key.target(folder).exists()]
    kinds = {name: PhaseKey(name, 0).target(folder).parent.name for name in ROUND_PHASES}
    found = [PhaseKey(name, k) for name, kind in kinds.items() for k in folder.rounds(kind)]
    in_rounds = [key for key in found if key.round_index < recipe.num_rounds]
    return early + sorted(in_rounds, key=lambda key: key.place)


def begun_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """Phases of a run that have a folder, finished ones first and then unfinished ones."""
    finished = finished_phases(recipe, folder)
    partial = [key for key in early_phases(recipe) if partial_of(key.target(folder)).exists()]
    for name in ROUND_PHASES:
        for path in PhaseKey(name, 0).target(folder).parent.glob(".round-*.partial"):
            index = round_index_of(path.name.removeprefix(".").removesuffix(".partial"))
            if index is not None and index < recipe.num_rounds:
                partial.append(PhaseKey(name, index))
    return finished + partial


def unfinished(recipe: Recipe) -> list[PhaseKey]:
    """Phases that are left to play, in order."""
    finished = set(finished_phases(recipe, RunFolder.of(recipe)))
    return [phase for phase in schedule(recipe) if phase not in finished]


def planned_steps(recipe: Recipe, phase: PhaseKey) -> int:
    """Optimiser steps of a phase, if no rule stops it early."""
    if phase.name == "warmup":
        return sum(player.warmup.max_steps for player in (recipe.prover, recipe.verifier) if player.warmup)
    config = recipe if phase.round_index is None else recipe.for_round(phase.round_index)
    if phase.name == "verifier":
        return config.verifier.max_steps
    if phase.name == "prover":
        return config.prover.planned_steps
    return 0


def game_steps(recipe: Recipe, phase: PhaseKey) -> range:
    """Range of a phase on the game's continuous step axis; it does not depend on early stopping."""
    phases = schedule(recipe)
    start = sum(planned_steps(recipe, earlier) for earlier in phases[: phases.index(phase)])
    return range(start, start + planned_steps(recipe, phase))


@dataclass
class PhaseRecord:
    """
    Record of a phase, stored in its folder.

    Args:
        num_processes (`int`):
            Number of processes that play the phase together.
        seconds (`float`):
            Duration of the phase over all its starts, except a running one.
        running_since (`float`, *optional*):
            Unix time of the last start; `None` if that start has ended, with or without success.
        summary (`str`):
            One-line result of a finished phase.
        task_use (`dict[str, float]`, *optional*):
            What the task's own processes did in the last start, if it has any (see [`~pvg_hf.tasks.Task.take_use`]).
        ended (`float`, *optional*):
            Unix time at which the last start ended; `None` while it runs, and in a record of an older version.
        alerts (`list[dict]`, *optional*):
            Alerts of a finished phase, each with `time`, `kind` and `message`; `None` in a record of an older version. They are
            published with the phase, unlike the event log.
        split (`dict[str, dict[str, float]]`, *optional*):
            What the main process spent over all starts, by kind of work (see [`~pvg_hf.core.stopwatch.Spent`]); `None` in a record
            of an older version.
        peak_flops (`float`, *optional*):
            Peak rate of the main process's GPU in floating-point operations per second; `None` without a known GPU.
    """

    num_processes: int
    seconds: float = 0.0
    running_since: float | None = None
    summary: str = ""
    task_use: dict[str, float] | None = None
    ended: float | None = None
    alerts: list[dict[str, Any]] | None = None
    split: dict[str, dict[str, float]] | None = None
    peak_flops: float | None = None


def read_record(folder: Path) -> PhaseRecord | None:
    """
    Read the record in the folder of a finished or unfinished phase; `None` if there is none.

    Raises:
        DamagedFileError: if it is damaged.
    """
    file = folder / PHASE_RECORD
    if not file.exists():
        return None
    try:
        return PhaseRecord(**unseal(file, read_json(file, is_sealed=True)))
    except (AttributeError, TypeError) as err:  # not a mapping, or unknown keys
        raise DamagedFileError(file, f"is damaged ({err})") from err


def _write_record(folder: Path, record: PhaseRecord) -> None:
    write_json(folder / PHASE_RECORD, seal(asdict(record)))


@contextmanager
def recording(
    partial: Path, num_processes: int, *, is_main: bool, peak_flops: float | None = None
) -> Iterator[PhaseRecord]:
    """
    Measure the duration of a phase within the block and its split by kind of work, added to those of earlier starts.

    The main process writes the record to `partial`, even if the block fails.
    """
    earlier = _spent_so_far(partial) if is_main else {}
    known = sum(spent.seconds for spent in earlier.values())
    record = PhaseRecord(num_processes, known, running_since=time.time(), peak_flops=peak_flops)
    record.split = _stored(earlier)
    if is_main:
        _write_record(partial, record)
    with measuring() as stopwatch:
        try:
            yield record
        finally:
            split = add_splits(earlier, stopwatch.read())
            record.split, record.seconds = _stored(split), sum(spent.seconds for spent in split.values())
            record.running_since, record.ended = None, time.time()
            if is_main and partial.exists():  # else it is not made again
                _write_record(partial, record)


def _spent_so_far(partial: Path) -> TimeSplit:
    """Split of the time of earlier starts of a phase."""
    record = read_record(partial)
    if record is None:
        return {}
    split = read_split(record.split) if record.split else {UNKNOWN: Spent(record.seconds)}
    if record.running_since is None:
        return split
    # The last start was killed and recorded no end. It ran at least until the last write in its folder.
    last_written = max(path.stat().st_mtime for path in partial.rglob("*"))
    return add_splits(split, {UNKNOWN: Spent(max(0.0, last_written - record.running_since))})


def _stored(split: TimeSplit) -> dict[str, dict[str, float]]:
    return {kind: asdict(spent) for kind, spent in split.items()}


def partial_of(target: Path) -> Path:
    """Staging folder of a phase, used until it is finished."""
    return target.parent / f".{target.name}.partial"


def seal_phase(folder: Path) -> None:
    """Write the digests of a finished phase's files."""
    write_digests(folder, without=REWRITTEN)


@contextmanager
def staged(target: Path, *, is_main: bool) -> Iterator[Path]:
    """
    Yield a staging folder for a phase's results, and rename it to `target` if the block succeeds.

    After a crash, the same folder is used again with its contents. The digests of its files are written last.
    """
    partial = partial_of(target)
    if is_main:
        partial.mkdir(parents=True, exist_ok=True)
        # Digests exist if a crash came just before the rename; they are stale, because the files are written again.
        (partial / DIGESTS).unlink(missing_ok=True)
    yield partial
    if is_main:
        seal_phase(partial)
        sync_tree(partial)
        os.replace(partial, target)
