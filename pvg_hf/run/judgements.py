"""
Results of evaluations that are computed after a round, beside its phases: `judging/NAME/round-000/` in a run's folder.

A result appears by one rename. A run's metrics, report and app read all results that exist.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pvg_hf.core.disk_names import round_folders, round_name
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.files import write_text
from pvg_hf.core.integrity import read_json
from pvg_hf.run.layout import JUDGEMENT, JUDGING, RunFolder


@dataclass(frozen=True)
class Judgement:
    """Result of one evaluation of one round."""

    name: str  # of the evaluation
    round_index: int
    title: str  # heading of its table in the report
    terms: dict[str, str]  # explanations of the figures' names, for the report
    figures: dict[str, Figure]  # by keys such as `64` or `accepted/src`
    settings: dict[str, Any]  # that it was computed with
    seconds: float  # over all starts
    folder: Path | None = field(default=None, compare=False)  # with further files; `None` before the result is written
    inputs: str | None = None  # hash of the other results that it has read, if any

    def figure(self, key: str) -> Figure:
        """Return a figure by its key; an empty one if it does not exist."""
        return self.figures.get(key, EMPTY)

    def write(self, folder: Path) -> None:
        values = {name: value for name, value in vars(self).items() if name != "folder"}
        values["figures"] = {key: figure.to_dict() for key, figure in self.figures.items()}
        write_text(folder / JUDGEMENT, json.dumps(values, indent=2) + "\n")  # keeps the order of the figures

    @classmethod
    def read(cls, folder: Path) -> "Judgement":
        """Read a result from its folder; a `DamagedFileError` if its file is missing or damaged."""
        return replace(read_json(folder / JUDGEMENT, cls), folder=folder)


def judgement_folder(folder: RunFolder, name: str, round_index: int) -> Path:
    """Return the folder of a round's result of an evaluation, which need not exist."""
    return folder.root / JUDGING / name / round_name(round_index)


def judgement_folders(folder: RunFolder) -> list[Path]:
    """Folders of all results of a run, by evaluation and round."""
    names = sorted(path.name for path in (folder.root / JUDGING).glob("[!.]*") if path.is_dir())
    found = [path for name in names for path in round_folders(folder.root / JUDGING / name).values()]
    return [path for path in found if (path / JUDGEMENT).exists()]


def load_judgements(folder: RunFolder) -> list[Judgement]:
    """Read all results of a run, by evaluation and round."""
    return [Judgement.read(path) for path in judgement_folders(folder)]


def judgement_lines(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield a line of metrics for each result: value, bounds of the interval and n of each figure."""
    for judgement in load_judgements(folder):
        line: dict[str, Any] = {"game_step": None, "phase": JUDGING, "round": judgement.round_index, "step": None}
        for key, figure in judgement.figures.items():
            name = f"{JUDGING}/{judgement.name}/{key}"
            bounds = {f"{name}/{part}": value for part, value in figure.to_dict().items() if part != "value"}
            line |= {name: figure.value, **bounds}
        yield line
