"""A run as a reader opens it: by its folder or its name on the Hub, anew when it has grown."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from pvg_hf.browse.analyses import Evaluations, read_evaluations
from pvg_hf.browse.index import SolutionIndex
from pvg_hf.config import Recipe
from pvg_hf.core.hub_access import HubError
from pvg_hf.hub.locate import locate_run
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.read import RunData, load_run

FIGURE_COLUMNS = (
    "problem_id",
    "role",
    "correct",
    "outcome",
    "score",
    "first_flaw_kind",
    "num_steps",
    "num_flaws",
)
"""What plots and comparisons read of the solutions."""

Value = TypeVar("Value")
Stamp = tuple[tuple[str, int, int], ...]


class OpenRun:
    """
    What a run holds at the moment. Files that have changed since they were read are read again.

    Args:
        root (`Path`):
            `runs/NAME`.

    Raises:
        ValueError: if it holds no recipe that can be read.
    """

    def __init__(self, root: Path):
        self.folder = RunFolder(root)
        self.recipe: Recipe = self.folder.read_recipe()
        self._index = _Kept(lambda: SolutionIndex(self.folder))
        self._evaluations = _Kept(lambda: read_evaluations(self.folder))
        self._data = _Kept(lambda: load_run(root, solution_columns=FIGURE_COLUMNS))

    @property
    def name(self) -> str:
        """As a reader knows it: the folder's name, which tells several runs of one recipe apart."""
        return self.folder.root.resolve().name

    def index(self) -> SolutionIndex:
        """The run's solutions."""
        return self._index.get(_stamp(self.folder.root, "pool/*/*.parquet", "verifier/*/calibration.json"))

    def evaluations(self) -> Evaluations:
        """What its verifiers wrote, where they write."""
        return self._evaluations.get(_stamp(self.folder.root, "evaluation/*/evaluations.parquet"))

    def data(self) -> RunData:
        """
        The run's figures.

        Raises:
            ValueError: if a file is damaged.
        """
        return self._data.get(_stamp(self.folder.root, "*.jsonl", "pool/*/test-*.parquet", "evaluation/*/*"))


def open_run(source: str | Path) -> OpenRun:
    """
    Open a run.

    Args:
        source (`str` or `Path`):
            A run's folder, or the name of a published run (`org/run`), whose last round is fetched without its provers.

    Raises:
        ValueError: if there is none; the message says what there is, or how to get one.
    """
    try:
        root = locate_run(source, with_provers=False)
    except HubError as err:
        raise ValueError(f"The run {source} cannot be fetched: {err}") from err
    if not root.exists():
        raise ValueError(f"The run {root} is not there. {_advice(root.parent)}")
    if not (root / "recipe.yaml").is_file():
        raise ValueError(f"{root} is no run's folder: it has no recipe.yaml. {_advice(root)}")
    return OpenRun(root)


def sibling_runs(root: Path) -> dict[str, Path]:
    """Other runs in the folder that a run lies in, by name."""
    others = (path for path in sorted(root.resolve().parent.iterdir()) if (path / "recipe.yaml").is_file())
    return {path.name: path for path in others if path != root.resolve()}


def _advice(folder: Path) -> str:
    found = sorted(path.parent for path in folder.glob("*/recipe.yaml")) if folder.is_dir() else []
    if found:
        return f"Open one of {', '.join(map(str, found[:12]))}."
    return "Play one first: `make demo` plays runs/quickstart in a few minutes."


class _Kept(Generic[Value]):
    """A value that is made again when what it was made from has changed."""

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
