"""
Records and staging folders of phases.

A phase writes into a staging folder, which is renamed when it is finished. A phase is either complete or absent:
complete ones are kept, all others run again.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pvg_hf.core.files import remove, sync_tree, write_json
from pvg_hf.core.integrity import DIGESTS, DamagedFileError, read_digests, read_json, write_digests
from pvg_hf.core.stopwatch import UNKNOWN, Spent, TimeSplit, add_splits, measuring
from pvg_hf.run.judgements import judgement_folders
from pvg_hf.run.layout import PAIRS, PHASE_RECORD, REWRITTEN, RunFolder, finished_phases, partial_of, phase_settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PhaseAlert:
    """An alert of a phase."""

    kind: str
    message: str
    time: float | None = None


@dataclass
class PhaseRecord:
    """Record of a phase, stored in its folder. Times are Unix times."""

    num_processes: int  # that play the phase together
    seconds: float = 0.0  # over all starts, except a running one
    running_since: float | None = None  # the last start; `None` if it has ended, with or without success
    summary: str = ""  # one-line result of a finished phase
    task_use: dict[str, float] | None = None  # work of the task's helpers in the last start, see `Task.take_use`
    ended: float | None = None  # end of the last start; `None` while it runs
    # They are published with the phase, unlike the event log.
    alerts: list[PhaseAlert] = field(default_factory=list)
    split: TimeSplit = field(default_factory=dict)  # what the main process spent over all starts, by kind of work
    peak_flops: float | None = None  # floating-point operations per second of the main process's GPU, if it is known


def read_record(folder: Path) -> PhaseRecord | None:
    """
    Read the record in the folder of a finished or unfinished phase; `None` if there is none, a `DamagedFileError` if
    damaged.
    """
    file = folder / PHASE_RECORD
    return read_json(file, PhaseRecord) if file.exists() else None


def read_begun_record(partial: Path) -> PhaseRecord | None:
    """Read the record of an unfinished phase; `None`, with a warning, if it is damaged: it has times alone."""
    try:
        return read_record(partial)
    except DamagedFileError as err:
        logger.warning("%s %s. The phase gets a new record; only its times so far are lost.", err.path, err.what)
        return None


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
    record.split = earlier
    if is_main:
        write_json(partial / PHASE_RECORD, asdict(record))
    with measuring() as stopwatch:
        try:
            yield record
        finally:
            split = add_splits(earlier, stopwatch.read())
            record.split, record.seconds = split, sum(spent.seconds for spent in split.values())
            record.running_since, record.ended = None, time.time()
            if is_main and partial.exists():  # else it is not made again
                write_json(partial / PHASE_RECORD, asdict(record))


def _spent_so_far(partial: Path) -> TimeSplit:
    """Split of the time of earlier starts of a phase."""
    record = read_begun_record(partial)
    if record is None:
        return {}
    if record.running_since is None:
        return record.split
    # The last start was killed and recorded no end. It ran at least until the last write in its folder.
    last_written = max(path.stat().st_mtime for path in partial.rglob("*"))
    return add_splits(record.split, {UNKNOWN: Spent(max(0.0, last_written - record.running_since))})


def seal_phase(folder: Path, settings: Mapping[str, Any] | None = None) -> None:
    """Write the digests of a finished phase's files, with the settings that its results depend on."""
    notes = {} if settings is None else {"settings": settings}
    write_digests(folder, without=REWRITTEN, **notes)


def seal_copy(folder: RunFolder) -> None:
    """Write the digests of all finished phases and evaluations of a run that was copied or downloaded."""
    recipe = folder.read_recipe()
    for key in finished_phases(recipe, folder):
        seal_phase(key.target(folder), phase_settings(recipe, key))
    for place in judgement_folders(folder):
        seal_phase(place)


def keeps_work(partial: Path) -> bool:
    """Whether the staging folder of an unfinished phase has anything that a resumed phase would use."""
    return any(path.is_file() and path.name not in (PHASE_RECORD, DIGESTS, PAIRS) for path in partial.rglob("*"))


@contextmanager
def staged(target: Path, *, is_main: bool, settings: Mapping[str, Any] | None = None) -> Iterator[Path]:
    """
    Yield a staging folder for a phase's results, and rename it to `target` if the block succeeds.

    After a crash, the same folder is used again with its contents, unless it was begun with other `settings`. The
    digests of its files are written last.
    """
    partial = partial_of(target)
    if is_main:
        if read_digests(partial).settings not in (None, settings) and not keeps_work(partial):
            remove(partial)
        partial.mkdir(parents=True, exist_ok=True)
        # Digests of files are stale here: a crash came just before the rename, and the files are written again.
        (partial / DIGESTS).unlink(missing_ok=True)
        if settings is not None:
            write_json(partial / DIGESTS, {"files": {}, "settings": settings})
    yield partial
    if is_main:
        seal_phase(partial, settings)
        sync_tree(partial)
        os.replace(partial, target)
