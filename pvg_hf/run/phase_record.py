"""
Records and staging folders of phases.

A phase writes into a staging folder, which is renamed when it is finished. A phase is either complete or absent:
complete ones are kept, all others run again.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pvg_hf.core.files import sync_tree, write_json
from pvg_hf.core.integrity import DIGESTS, DamagedFileError, read_json, write_digests
from pvg_hf.core.stopwatch import UNKNOWN, Spent, TimeSplit, add_splits, measuring, read_split
from pvg_hf.run.layout import PHASE_RECORD, REWRITTEN, partial_of


@dataclass
class PhaseRecord:
    """Record of a phase, stored in its folder. Times are Unix times."""

    num_processes: int  # that play the phase together
    seconds: float = 0.0  # over all starts, except a running one
    running_since: float | None = None  # the last start; `None` if it has ended, with or without success
    summary: str = ""  # one-line result of a finished phase
    task_use: dict[str, float] | None = None  # work of the task's helpers in the last start, see `Task.take_use`
    ended: float | None = None  # end of the last start; `None` while it runs
    # Each with `time`, `kind` and `message`. They are published with the phase, unlike the event log.
    alerts: list[dict[str, Any]] = field(default_factory=list)
    # What the main process spent over all starts, by kind of work (see `pvg_hf.core.stopwatch.Spent`).
    split: dict[str, dict[str, float]] = field(default_factory=dict)
    peak_flops: float | None = None  # floating-point operations per second of the main process's GPU, if it is known


def read_record(folder: Path) -> PhaseRecord | None:
    """
    Read the record in the folder of a finished or unfinished phase; `None` if there is none, a `DamagedFileError` if
    damaged.
    """
    file = folder / PHASE_RECORD
    if not file.exists():
        return None
    try:
        return PhaseRecord(**read_json(file))
    except TypeError as err:  # not a mapping, or unknown keys
        raise DamagedFileError(file, f"is damaged ({err})") from err


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
        write_json(partial / PHASE_RECORD, asdict(record))
    with measuring() as stopwatch:
        try:
            yield record
        finally:
            split = add_splits(earlier, stopwatch.read())
            record.split, record.seconds = _stored(split), sum(spent.seconds for spent in split.values())
            record.running_since, record.ended = None, time.time()
            if is_main and partial.exists():  # else it is not made again
                write_json(partial / PHASE_RECORD, asdict(record))


def _spent_so_far(partial: Path) -> TimeSplit:
    """Split of the time of earlier starts of a phase."""
    record = read_record(partial)
    if record is None:
        return {}
    split = read_split(record.split)
    if record.running_since is None:
        return split
    # The last start was killed and recorded no end. It ran at least until the last write in its folder.
    last_written = max(path.stat().st_mtime for path in partial.rglob("*"))
    return add_splits(split, {UNKNOWN: Spent(max(0.0, last_written - record.running_since))})


def _stored(split: TimeSplit) -> dict[str, dict[str, float]]:
    return {kind: asdict(spent) for kind, spent in split.items()}


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
