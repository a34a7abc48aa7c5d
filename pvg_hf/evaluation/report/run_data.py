"""Reads what a run folder holds so far."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.data.schema import BASE_ROUND, round_folders, round_name
from pvg_hf.evaluation.intervals import EMPTY, Figure
from pvg_hf.roles import GAME_ROLES

Event = dict[str, Any]
COUNTS = re.compile(r"(heldout_)?pairs/|\w+/num_(cut|unreadable)$")  # metrics that are counts of a round


@dataclass(frozen=True)
class RoundData:
    """
    What a round has left so far.

    Args:
        round_index (`int`):
            From 0.
        steps (`pd.DataFrame`):
            The prover phase's metrics, one row per `step`, columns without their `prover/`; empty before it began.
        figures (`dict[str, Figure]`):
            What `evaluate_round` returned, keys without their `round/`; empty before the evaluation.
        problems (`pd.DataFrame`, *optional*):
            What `problem_table` returned.
        solutions (`pd.DataFrame`, *optional*):
            The test solutions of both roles; `None` before they were minted.
        counts (`Counter[str]`, *optional*):
            What its pairs were built from and what was left out (`pairs/...`, `heldout_pairs/...`), and the inputs that
            were cut when they were scored (`PHASE/num_cut`) and the evaluations without a score (`PHASE/num_unreadable`), as far as the phases are finished.
        evaluations (`pd.DataFrame`, *optional*):
            What a verifier of kind `score` wrote about test proofs.
    """

    round_index: int
    steps: pd.DataFrame
    figures: dict[str, Figure]
    problems: pd.DataFrame | None
    solutions: pd.DataFrame | None
    counts: Counter[str] = field(default_factory=Counter)
    evaluations: pd.DataFrame | None = None

    def figure(self, name: str) -> Figure:
        """A figure by its key without `round/`; empty where the round has none."""
        return self.figures.get(name, EMPTY)


@dataclass(frozen=True)
class RunData:
    """
    A run folder.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]), recipe_text (`str`):
            The resolved recipe, read and as it stands.
        environment (`dict[str, Any]`):
            `run.json`: versions, git revision, machine, threads, seed.
        events (`list[dict]`):
            `events.jsonl`.
        rounds (`list[RoundData]`):
            Every round that has begun.
        checks (`list[dict]`):
            `checks.json` of every finished phase that asked a checker, in their order.
    """

    recipe: Recipe
    recipe_text: str
    environment: dict[str, Any]
    events: list[Event]
    rounds: list[RoundData]
    checks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def evaluated(self) -> list[RoundData]:
        return [data for data in self.rounds if data.figures]

    @property
    def alerts(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "alert"]

    @property
    def finished_phases(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "phase_finished"]

    def phase_seconds(self) -> dict[tuple[int, str], float]:
        """Duration of each finished phase by (round, phase); the phases before the first round have round -1."""
        return {(_round_of(event), event["phase"]): event["seconds"] for event in self.finished_phases}

    def is_finished(self, phase: str, round_index: int) -> bool:
        return (round_index, phase) in self.phase_seconds()


def load_run(run_folder: Path, *, solution_columns: Sequence[str] | None = None) -> RunData:
    """
    Read a run folder, finished or not.

    Args:
        run_folder (`Path`):
            `runs/NAME`.
        solution_columns (`Sequence[str]`, *optional*):
            Which columns of the solutions to read, as far as the pool has them; all by default, texts included.

    Raises:
        ValueError: if there is no `recipe.yaml`, or a file is damaged.
    """
    recipe_file = run_folder / "recipe.yaml"
    if not recipe_file.is_file():
        raise ValueError(f"{run_folder} is no run folder: it has no recipe.yaml.")
    metrics = _read_json_lines(run_folder / "metrics.jsonl")
    steps = _load_steps(metrics)
    return RunData(
        recipe=load_recipe(recipe_file),
        recipe_text=recipe_file.read_text(encoding="utf-8"),
        environment=_read_json(run_folder / "run.json"),
        events=_read_json_lines(run_folder / "events.jsonl"),
        rounds=[
            _load_round(run_folder, index, steps, metrics, solution_columns)
            for index in _round_indices(run_folder, steps)
        ],
        checks=_load_checks(run_folder),
    )


def _load_checks(run_folder: Path) -> list[dict[str, Any]]:
    found = [_read_json(path) for path in run_folder.glob("[!.]*/[!.]*/checks.json")]
    return sorted(found, key=lambda told: (told["round"], ("bootstrap", "prover", "mint").index(told["phase"])))


def _round_indices(run_folder: Path, steps: pd.DataFrame) -> list[int]:
    folders = {index for part in ("evaluation", "pool") for index in round_folders(run_folder / part)}
    return sorted(folders | {int(index) for index in steps["round"]})


def _load_round(
    run_folder: Path,
    round_index: int,
    steps: pd.DataFrame,
    metrics: list[dict[str, Any]],
    solution_columns: Sequence[str] | None,
) -> RoundData:
    name = round_name(round_index)
    evaluation, pool = run_folder / "evaluation" / name, run_folder / "pool" / name
    figures = _read_json(evaluation / "metrics.json")
    problems, written = evaluation / "problems.parquet", evaluation / "evaluations.parquet"
    return RoundData(
        round_index=round_index,
        steps=steps[steps["round"] == round_index].dropna(axis="columns", how="all"),
        figures={key.removeprefix("round/"): Figure.from_dict(value) for key, value in figures.items()},
        problems=pd.read_parquet(problems) if problems.is_file() else None,
        solutions=_load_solutions([pool / f"test-{role}.parquet" for role in GAME_ROLES], solution_columns),
        counts=_load_counts(metrics, round_index),
        evaluations=pd.read_parquet(written) if written.is_file() else None,
    )


def _load_counts(metrics: list[dict[str, Any]], round_index: int) -> Counter[str]:
    """A round's counts; what several lines count is added up."""
    counts: Counter[str] = Counter()
    for line in metrics:
        if line["round"] == round_index:
            counts.update({key: value for key, value in line.items() if COUNTS.match(key)})
    return counts


def _load_solutions(files: Sequence[Path], columns: Sequence[str] | None) -> pd.DataFrame | None:
    existing = [_read_columns(file, columns) for file in files if file.is_file()]
    return pd.concat(existing, ignore_index=True) if existing else None


def _read_columns(file: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    there = None if columns is None else [name for name in pq.read_schema(file).names if name in columns]
    return pd.read_parquet(file, columns=there)


def _load_steps(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """The prover's metrics as a table; values that several lines give of one step stand in one row."""
    rows = [line for line in lines if line["phase"] == "prover" and line["step"] is not None]
    table = pd.DataFrame(rows, columns=None if rows else ["round", "step"])
    table = table.rename(columns=lambda name: name.removeprefix("prover/"))
    numbers = table.drop(columns="phase", errors="ignore").apply(pd.to_numeric, errors="coerce")
    return numbers.groupby(["round", "step"], as_index=False).last()


def _round_of(event: Event) -> int:
    return BASE_ROUND if event["round"] is None else event["round"]


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that is being written: a last line without its end is left out."""
    if not path.is_file():
        return []
    *lines, _ = path.read_text(encoding="utf-8").split("\n")
    try:
        return [json.loads(line) for line in lines]
    except json.JSONDecodeError as err:
        raise ValueError(f"{path} holds a line that is not JSON: {err.doc[:80]!r}.") from err
