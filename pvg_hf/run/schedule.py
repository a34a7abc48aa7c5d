"""The phases of a game in order, and how each appears in the run's folder: staged, recorded, renamed."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pvg_hf.config import Recipe
from pvg_hf.core.files import sync_tree, write_json
from pvg_hf.core.integrity import (
    DIGESTS,
    DamagedFileError,
    read_json,
    seal,
    unseal,
    write_digests,
)
from pvg_hf.data.schema import round_folders, round_index_of
from pvg_hf.run.folder import RunFolder

ROUND_PHASES = ("verifier", "prover", "mint", "evaluate")


@dataclass(frozen=True)
class PhaseKey:
    """
    One phase of a game.

    Args:
        name (`str`):
            `warmup`, `bootstrap`, or one of `ROUND_PHASES`.
        round_index (`int`, *optional*):
            `None` for the phases before the first round.
    """

    name: str
    round_index: int | None = None

    def __str__(self) -> str:
        return self.name if self.round_index is None else f"round-{self.round_index:03d}/{self.name}"

    @classmethod
    def parse(cls, text: str, round_index: int | None = None) -> "PhaseKey":
        """The phase that `round-000/prover`, or `prover` with a round's index, names."""
        match = re.fullmatch(r"round-(\d+)/(.+)", text)
        if match is None:
            return cls(text, round_index)
        if round_index not in (None, int(match[1])):
            raise ValueError(
                f"The phase `{text}` and the round {round_index} contradict each other; leave out one round."
            )
        return cls(match[2], int(match[1]))

    def target(self, folder: RunFolder) -> Path:
        """The folder whose existence says that the phase is finished."""
        if self.name == "warmup":
            return folder.models
        if self.name == "bootstrap":
            return folder.pool(-1)
        places = {"verifier": folder.verifier, "prover": folder.prover, "mint": folder.pool}
        return places.get(self.name, folder.evaluation)(self.round_index)


def early_phases(recipe: Recipe) -> list[PhaseKey]:
    """The phases before the first round, in order."""
    has_warmup = any(player.warmup or player.scratch for player in (recipe.prover, recipe.verifier))
    return [PhaseKey(name) for name in (("warmup", "bootstrap") if has_warmup else ("bootstrap",))]


def schedule(recipe: Recipe) -> list[PhaseKey]:
    """Every phase of the game, in order."""
    return early_phases(recipe) + [PhaseKey(name, k) for k in range(recipe.num_rounds) for name in ROUND_PHASES]


def num_phases(recipe: Recipe) -> int:
    """Length of the [`schedule`]."""
    return len(early_phases(recipe)) + recipe.num_rounds * len(ROUND_PHASES)


def finished_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """The finished phases of a run, in order. Its folders are listed: a game may have many more rounds than were played."""
    early = [key for key in early_phases(recipe) if key.target(folder).exists()]
    found = [
        PhaseKey(name, k) for name in ROUND_PHASES for k in round_folders(PhaseKey(name, 0).target(folder).parent)
    ]
    in_rounds = [key for key in found if key.round_index < recipe.num_rounds]
    return early + sorted(in_rounds, key=lambda key: (key.round_index, ROUND_PHASES.index(key.name)))


def begun_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """The phases of a run that have a folder, be it an unfinished one; first the finished ones."""
    finished = finished_phases(recipe, folder)
    partial = [key for key in early_phases(recipe) if partial_of(key.target(folder)).exists()]
    for name in ROUND_PHASES:
        for path in PhaseKey(name, 0).target(folder).parent.glob(".round-*.partial"):
            index = round_index_of(path.name.removeprefix(".").removesuffix(".partial"))
            if index is not None and index < recipe.num_rounds:
                partial.append(PhaseKey(name, index))
    return finished + partial


def unfinished(recipe: Recipe) -> list[PhaseKey]:
    """What is left of the game, in order."""
    finished = set(finished_phases(recipe, RunFolder.of(recipe)))
    return [phase for phase in schedule(recipe) if phase not in finished]


def planned_steps(recipe: Recipe, phase: PhaseKey) -> int:
    """Optimiser steps of a phase if nothing ends it early."""
    if phase.name == "warmup":
        return sum(player.warmup.max_steps for player in (recipe.prover, recipe.verifier) if player.warmup)
    config = recipe if phase.round_index is None else recipe.for_round(phase.round_index)
    if phase.name == "verifier":
        return config.verifier.max_steps
    if phase.name == "prover":
        return config.prover.planned_steps
    return 0


def game_steps(recipe: Recipe, phase: PhaseKey) -> range:
    """A phase's place on the game's continuous step axis; no phase's length depends on when it was stopped."""
    phases = schedule(recipe)
    start = sum(planned_steps(recipe, earlier) for earlier in phases[: phases.index(phase)])
    return range(start, start + planned_steps(recipe, phase))


_FILE = "phase.json"


@dataclass
class PhaseRecord:
    """
    Args:
        num_processes (`int`):
            That play the phase together.
        seconds (`float`):
            That the phase took, all starts together but for the one that is running.
        running_since (`float`, *optional*):
            Unix time at which the last start began; `None` once that came to its end, good or bad.
        summary (`str`):
            What a finished phase came to.
    """

    num_processes: int
    seconds: float = 0.0
    running_since: float | None = None
    summary: str = ""


def read_record(folder: Path) -> PhaseRecord | None:
    """
    The record of a phase's folder, finished or not; `None` if there is none.

    Raises:
        DamagedFileError: if it is damaged.
    """
    file = folder / _FILE
    if not file.exists():
        return None
    try:
        return PhaseRecord(**unseal(file, read_json(file)))
    except (AttributeError, TypeError) as err:  # not a mapping, or one of other keys
        raise DamagedFileError(file, f"is damaged ({err})") from err


def _write_record(folder: Path, record: PhaseRecord) -> None:
    write_json(folder / _FILE, seal(asdict(record)))


@contextmanager
def recording(partial: Path, num_processes: int, *, is_main: bool) -> Iterator[PhaseRecord]:
    """
    Time a phase within the block, on top of earlier starts. The main process keeps the record in `partial`, also where
    the block fails.
    """
    earlier, started = _seconds_so_far(partial) if is_main else 0.0, time.monotonic()
    record = PhaseRecord(num_processes, earlier, running_since=time.time())
    if is_main:
        _write_record(partial, record)
    try:
        yield record
    finally:
        record.seconds, record.running_since = earlier + time.monotonic() - started, None
        if is_main:
            _write_record(partial, record)


def _seconds_so_far(partial: Path) -> float:
    """Of earlier starts. One that was killed came to no end; it ran at least until something was written last."""
    record = read_record(partial)
    if record is None:
        return 0.0
    if record.running_since is None:
        return record.seconds
    last_written = max(path.stat().st_mtime for path in partial.rglob("*"))
    return record.seconds + max(0.0, last_written - record.running_since)


def partial_of(target: Path) -> Path:
    """Where a phase's results are written until it is finished."""
    return target.parent / f".{target.name}.partial"


@contextmanager
def staged(target: Path, *, is_main: bool) -> Iterator[Path]:
    """
    A folder to write a phase's results in, which becomes `target` by one rename when the block ends well. After a crash
    the unfinished folder is handed out again, with what is in it. The digests of its files are written last.
    """
    partial = partial_of(target)
    if is_main:
        partial.mkdir(parents=True, exist_ok=True)
        (partial / DIGESTS).unlink(
            missing_ok=True
        )  # a crash came between this and the rename; files are written again
    yield partial
    if is_main:
        write_digests(partial)
        sync_tree(partial)
        os.replace(partial, target)
