"""Reads the contents of a run's folder, finished or not."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.integrity import convert, naming_parquet, read_json, read_json_lines, read_mapping
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.core.stopwatch import TimeSplit
from pvg_hf.run.judgements import Judgement, load_judgements
from pvg_hf.run.layout import EVALUATIONS, FIGURES, POOL_SCORES, PROBLEMS, PhaseKey, RunFolder, pool_test_file
from pvg_hf.run.resume import read_played_recipe
from pvg_hf.run.stored import CallSummary, Environment, FalsePositives, MetricLine, RunState

RunEvent = dict[str, Any]

_MENDED_AT_START = "Start the run again with its command: this rewrites the file."

COUNTS = re.compile(r"(heldout_)?pairs/|\w+/num_(cut|unreadable)$")  # metrics that are counts of a round


@dataclass(frozen=True)
class RoundData:
    """Results of a round so far; a table is empty or `None` before the phase that writes it."""

    round_index: int
    # Metrics of the prover phase, one row per `step`, columns without the prefix `prover/`.
    steps: pd.DataFrame = field(default_factory=pd.DataFrame)
    # Return value of `evaluate_round`, keys without the prefix `round/`.
    figures: dict[str, Figure] = field(default_factory=dict)
    problems: pd.DataFrame | None = None  # return value of `problem_table`
    solutions: pd.DataFrame | None = None  # test solutions of both roles
    # Used and left-out solutions of the pairs (`pairs/...`, `heldout_pairs/...`), inputs that were cut when they were
    # scored (`PHASE/num_cut`), and evaluations without a score (`PHASE/num_unreadable`).
    counts: Counter[str] = field(default_factory=Counter)
    evaluations: pd.DataFrame | None = None  # of test proofs, by a generative verifier (`kind: score`)
    pool_scores: pd.DataFrame | None = None  # scores of test solutions by the verifiers of several rounds

    def figure(self, name: str) -> Figure:
        """
        A figure by its key without the prefix `round/`, in which `{round}` is the round's name; an empty one if there
        is none.
        """
        return self.figures.get(name.format(round=round_name(self.round_index)), EMPTY)


@dataclass(frozen=True)
class RunData:
    """Contents of a run's folder."""

    recipe: Recipe  # resolved
    recipe_text: str
    environment: dict[str, Any]  # `run.json`: versions, git revision, machine, threads, seed
    events: list[RunEvent]
    rounds: list[RoundData]  # all that have started
    call_summaries: list[CallSummary] = field(default_factory=list)  # of finished phases, in order
    false_positives: list[FalsePositives] = field(default_factory=list)  # by round
    judgements: list[Judgement] = field(default_factory=list)  # results of the evaluations that followed the rounds
    pilot: list[dict[str, Any]] = field(default_factory=list)  # solutions; empty if there was none
    # Unreadable lines of `events.jsonl` (the last may be half-written right now), plus finished phases without an
    # event.
    num_lost_events: int = 0

    @property
    def evaluated(self) -> list[RoundData]:
        return [data for data in self.rounds if data.figures]

    @property
    def commit(self) -> str:
        """
        The commit of the source, and whether it had changes: `commit cef26cde7c with changes`. Empty if it is unknown.
        """
        revision, dirty, _ = (self.environment.get("git_revision") or "").partition("-dirty")
        return f"commit {revision[:10]}{' with changes' if dirty else ''}" if revision else ""

    @property
    def alerts(self) -> list[RunEvent]:
        return [event for event in self.events if event["event"] == "alert"]

    @property
    def finished_phases(self) -> list[RunEvent]:
        return [event for event in self.events if event["event"] == "phase_finished"]

    def phase_seconds(self) -> dict[tuple[int, str], float]:
        """Duration of each finished phase by (round, phase); the phases before the first round have round -1."""
        return {(_round_of(event), event["phase"]): event["seconds"] for event in self.finished_phases}

    def phase_splits(self) -> dict[tuple[int, str], TimeSplit]:
        """Time split of each finished phase, with keys as for [`phase_seconds`]."""
        found = ((event, convert(event.get("split", {}), TimeSplit)) for event in self.finished_phases)
        return {(_round_of(event), event["phase"]): split for event, split in found if split}

    @property
    def peak_flops(self) -> dict[tuple[int, str], float | None]:
        """Peak rate of the GPU that played each finished phase; `None` without a known GPU."""
        return {(_round_of(event), event["phase"]): event.get("peak_flops") for event in self.finished_phases}

    def is_finished(self, phase: str, round_index: int) -> bool:
        return (round_index, phase) in self.phase_seconds()


def load_run(run_folder: Path, *, solution_columns: Sequence[str] | None = None) -> RunData:
    """
    Read a run's folder, `runs/NAME`, finished or not.

    Of the solutions, only `solution_columns` are read, as far as the pool has them; all by default, including texts.

    Raises:
        ValueError: if there is no `recipe.yaml`.
        DamagedFileError: if a file is damaged.
    """
    folder = RunFolder.find(run_folder)
    finished, metrics = _load_lists(folder)
    steps = _load_steps(metrics)
    events, num_unreadable = folder.read_events()
    num_logged = sum(event["event"] == "phase_finished" for event in events)
    return RunData(
        recipe=read_played_recipe(folder),
        recipe_text=folder.recipe.read_text(encoding="utf-8"),
        environment=read_mapping(folder.environment, Environment, remedy=_MENDED_AT_START)
        if folder.environment.is_file()
        else {},
        events=events,
        num_lost_events=num_unreadable + max(0, len(finished) - num_logged),
        rounds=[
            _load_round(folder, index, steps, metrics, solution_columns) for index in _round_indices(folder, steps)
        ],
        call_summaries=sorted(
            (read_json(path, CallSummary) for path in folder.call_summaries()),
            key=lambda calls: PhaseKey(calls.phase, calls.round).place,
        ),
        false_positives=[read_json(path, FalsePositives) for path in folder.false_positive_summaries()],
        judgements=load_judgements(folder),
        pilot=folder.read_pilot().get("rows", []),
    )


def _round_indices(folder: RunFolder, steps: pd.DataFrame) -> list[int]:
    folders = {index for kind in ("evaluation", "pool") for index in folder.rounds(kind)}
    return sorted(folders | {int(index) for index in steps["round"]})


def _load_round(
    folder: RunFolder,
    round_index: int,
    steps: pd.DataFrame,
    metrics: list[dict[str, Any]],
    solution_columns: Sequence[str] | None,
) -> RoundData:
    evaluation, pool = folder.evaluation(round_index), folder.pool(round_index)
    tables = [evaluation / name for name in (PROBLEMS, EVALUATIONS, POOL_SCORES)]
    problems, written, crossed = (_read_columns(file, None) if file.is_file() else None for file in tables)
    return RoundData(
        round_index=round_index,
        steps=steps[steps["round"] == round_index].dropna(axis="columns", how="all"),
        figures=_load_figures(evaluation / FIGURES),
        problems=problems,
        solutions=_load_solutions([pool / pool_test_file(role) for role in GAME_ROLES], solution_columns),
        counts=_load_counts(metrics, round_index),
        evaluations=written,
        pool_scores=crossed,
    )


def load_figures(folder: RunFolder, rounds: Iterable[int]) -> list[RoundData]:
    """Read rounds with their figures alone; those that are not evaluated are left out."""
    found = [RoundData(index, figures=_load_figures(folder.evaluation(index) / FIGURES)) for index in rounds]
    return [data for data in found if data.figures]


def _load_figures(path: Path) -> dict[str, Figure]:
    found = read_json(path, dict[str, Figure]) if path.is_file() else {}
    return {key.removeprefix("round/"): figure for key, figure in found.items()}


def _load_counts(metrics: list[dict[str, Any]], round_index: int) -> Counter[str]:
    """Counts of a round, summed over all lines."""
    counts: Counter[str] = Counter()
    for line in metrics:
        if line["round"] == round_index:
            counts.update({key: value for key, value in line.items() if COUNTS.match(key) and isinstance(value, int)})
    return counts


def _load_solutions(files: Sequence[Path], columns: Sequence[str] | None) -> pd.DataFrame | None:
    existing = [_read_columns(file, columns) for file in files if file.is_file()]
    return pd.concat(existing, ignore_index=True) if existing else None


def _read_columns(file: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    with naming_parquet(file):
        there = None if columns is None else [name for name in pq.read_schema(file).names if name in columns]
        return pd.read_parquet(file, columns=there, page_checksum_verification=True)


def _load_steps(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """The prover's metrics as a table; values of one step from several lines are merged into one row."""
    rows = [
        {key: value for key, value in line.items() if isinstance(value, int | float)}
        for line in lines
        if line["phase"] == "prover" and line["step"] is not None and line["round"] is not None
    ]
    table = pd.DataFrame(rows, columns=None if rows else ["round", "step"])
    table = table.rename(columns=lambda name: name.removeprefix("prover/"))
    return table.apply(pd.to_numeric).groupby(["round", "step"], as_index=False).last()


def name_phase(round_index: int, phase: str) -> str:
    """Name of a phase for people, e.g. `round 0 prover`."""
    return phase if round_index == BASE_ROUND else f"round {round_index} {phase}"


def _round_of(event: RunEvent) -> int:
    return BASE_ROUND if event["round"] is None else event["round"]


def _load_lists(folder: RunFolder) -> tuple[list[str], list[dict[str, Any]]]:
    """Finished phases from `state.json`, and the lines of `metrics.jsonl`."""
    path, state = folder.metrics, folder.state
    lines = read_json_lines(path, MetricLine, remedy=_MENDED_AT_START) if path.is_file() else []
    known = read_json(state, RunState, remedy=_MENDED_AT_START) if state.is_file() else RunState([])
    return known.finished, lines
