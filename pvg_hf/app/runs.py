"""Opens a run for reading, by its folder or its name on the Hub, and reads it again when it has grown."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd

from pvg_hf.app.index import SolutionIndex
from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import ANNOTATIONS
from pvg_hf.core.hub_access import HubError
from pvg_hf.core.integrity import DamagedFileError, naming_parquet
from pvg_hf.data.annotations import Annotation, append_annotation, read_annotations
from pvg_hf.hub.locate import locate_run
from pvg_hf.run.layout import EVALUATIONS, JUDGEMENT, JUDGING, RunFolder
from pvg_hf.run.read import RunData, load_run
from pvg_hf.run.resume import NUM_NAMED, describe_missing, find_missing, read_played_recipe

LOOPBACK = ("127.0.0.1", "localhost", "::1")

FIGURE_COLUMNS = (
    *("problem_id", "role", "correct", "outcome", "score"),
    *("first_flaw_kind", "num_steps", "num_flaws", "similarity", "failing_input"),  # as far as the task has them
)
"""Columns of the solutions that plots and comparisons need."""

_EVALUATION_COLUMNS = ["problem", "role", "solution", "reference", "predicted", "evaluation", "issues"]

Value = TypeVar("Value")
Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Evaluations:
    """Evaluations of test proofs that the verifiers of a run wrote."""

    tables: dict[int, pd.DataFrame] = field(default_factory=dict)  # by round, one row per evaluation
    damage: list[str] = field(default_factory=list)  # files that could not be read, and what to do about each


class OpenRun:
    """
    Current contents of a run's folder, `runs/NAME`. Files that have changed since the last access are read again.

    A folder without a readable recipe is a `ValueError`.
    """

    def __init__(self, root: Path):
        self.folder = RunFolder(root)
        self.recipe: Recipe = read_played_recipe(self.folder)
        self._index = _Kept(lambda: SolutionIndex(self.folder))
        self._evaluations = _Kept(lambda: _read_evaluations(self.folder))
        self._annotations = _Kept(lambda: read_annotations(root))
        self._annotating = threading.Lock()
        self._data = _Kept(lambda: load_run(root, solution_columns=FIGURE_COLUMNS))

    @property
    def name(self) -> str:
        # Not the recipe's name: several runs may have the same recipe.
        return self.folder.root.resolve().name

    def index(self) -> SolutionIndex:
        index = self._index.get(_stamp(self.folder.root, "pool/*/*.parquet", "evaluation/*/pool_scores.parquet"))
        index.annotate(self._read_annotations()[0])
        return index

    def _read_annotations(self) -> tuple[dict[str, Annotation], list[int]]:
        return self._annotations.get(_stamp(self.folder.root, ANNOTATIONS))

    def notes(self) -> list[str]:
        """Sentences on what the pages leave out: files that were deleted, and lines that are not annotations."""
        notes = []
        with suppress(DamagedFileError):  # the page that reads the file names it
            missing = find_missing(self.folder, self.recipe)
            notes += [describe_missing(missing)] if missing else []
        odd = self._read_annotations()[1]
        if odd:
            lines = ", ".join(map(str, odd[:NUM_NAMED]))
            notes.append(
                f"{len(odd)} line(s) of {self.folder.root / ANNOTATIONS} are not labels of the app, and are left out:"
                f" {lines}{', ...' if len(odd) > NUM_NAMED else ''}."
            )
        return notes

    @property
    def takes_annotations(self) -> bool:
        """Whether visitors may label solutions: only if nobody but the machine's own users reaches the app."""
        is_shared = any(os.environ.get(name) for name in ("SPACE_ID", "GRADIO_ROOT_PATH", "GRADIO_SHARE"))
        return not is_shared and os.environ.get("GRADIO_SERVER_NAME", LOOPBACK[0]) in LOOPBACK

    def annotate(self, key: str, **changes: Any) -> str:
        """
        Keep a person's label or note with the run: `score` (0, 0.5, 1 or `None`) or `note`, or both.

        Returns: what was done, with what a game will make of it; empty if nothing changed.
        Raises `ValueError` if there is no such solution, or the run's folder cannot be written.
        """
        if not self.takes_annotations:
            raise ValueError(
                "Labels are taken only where nobody else reaches the app. Open it on your own machine, without"
                " GRADIO_ROOT_PATH, GRADIO_SHARE or another GRADIO_SERVER_NAME."
            )
        with self._annotating:  # from reading to writing, or a label and a note at once would undo each other
            index = self.index()
            found = index.find_key(key)
            if found is None:
                raise ValueError(f"The run has no solution {key!r:.40}. Reload the page.")
            before: dict[str, Any] = {"score": found.person_score, "note": found.note or ""}
            after = {**before, **changes}
            after["note"] = after["note"].strip()
            if after == before:
                return ""
            [row] = index.read([found.place])
            texts = {name: row[name] for name in ("problem_id", "problem", "solution", "role", "round_index")}
            now = datetime.now(UTC).isoformat(timespec="seconds")
            try:
                append_annotation(self.folder.root, Annotation(key=key, time=now, **texts, **after))
            except OSError as err:
                raise ValueError(
                    f"Nothing was kept: {self.folder.root / ANNOTATIONS} cannot be written ({err.strerror}). Check its"
                    " permissions and the space on the disk."
                ) from err
        place = self.folder.root / ANNOTATIONS
        if "score" not in changes:
            return f"The note is kept in {place}."
        if after["score"] is None:
            return f"The label is taken back in {place}."
        if row["part"] == "verifier":
            return f"The label is kept in {place}."
        part = "test" if row["part"] == "test" else "held-out"
        return f"The label is kept in {place}. Games do not learn from it: it is a {part} problem."

    def evaluations(self) -> Evaluations:
        return self._evaluations.get(_stamp(self.folder.root, "evaluation/*/evaluations.parquet"))

    def data(self) -> RunData:
        """Figures of the run; a `ValueError` if a file is damaged."""
        patterns = ("*.jsonl", "pool/*/test-*.parquet", "evaluation/*/*", f"{JUDGING}/*/*/{JUDGEMENT}")
        return self._data.get(_stamp(self.folder.root, *patterns))


def open_run(source: str | Path) -> OpenRun:
    """
    Open a run by its folder, or by the name of a published run (`org/run`), whose last round is downloaded without its
    provers.

    Raises `ValueError` if there is no such run; the message lists runs that exist, or says how to play one.
    """
    try:
        root = locate_run(source, with_provers=False)
    except HubError as err:
        raise ValueError(f"The run {source} cannot be downloaded: {err}") from err
    return OpenRun(RunFolder.find(root).root)


def sibling_runs(root: Path) -> dict[str, Path]:
    """Other runs in the parent folder of a run, by name."""
    others = (path for path in sorted(root.resolve().parent.iterdir()) if RunFolder(path).recipe.is_file())
    return {path.name: path for path in others if path != root.resolve()}


def _read_evaluations(folder: RunFolder) -> Evaluations:
    found = Evaluations()
    for round_index, place in folder.rounds("evaluation").items():
        path = place / EVALUATIONS
        if not path.exists():
            continue
        try:
            with naming_parquet(path):
                found.tables[round_index] = pd.read_parquet(
                    path, columns=_EVALUATION_COLUMNS, page_checksum_verification=True
                )
        except DamagedFileError as err:
            found.damage.append(str(err))
    return found


class _Kept(Generic[Value]):
    """A cached value that is computed again when the files that it depends on have changed."""

    def __init__(self, make: Callable[[], Value]):
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[Stamp, Value] | None = None

    def get(self, stamp: Stamp) -> Value:
        with self._lock:
            if self._made is None or self._made[0] != stamp:
                self._made = (stamp, self._make())
            return self._made[1]


def _stamp(root: Path, *patterns: str) -> Stamp:
    paths = sorted(path for pattern in patterns for path in root.glob(pattern))
    return tuple((str(path), (status := path.stat()).st_mtime_ns, status.st_size) for path in paths)
