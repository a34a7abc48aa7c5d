"""Rebuilds `state.json`, `metrics.jsonl`, the event log and the report from the finished phases."""

import logging
from typing import Any

from accelerate import PartialState

from pvg_hf.config import Recipe
from pvg_hf.core.afterwards import only_warning
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.data.problems import GameProblems
from pvg_hf.report import write_report
from pvg_hf.run.damage import check_finished_phases, unchecked_phases
from pvg_hf.run.environment import describe_environment
from pvg_hf.run.file_names import CALL_SUMMARY, FIGURES, METRICS
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.judgements import judgement_lines
from pvg_hf.run.resume import check_processes, check_same_problems, check_same_recipe, differences
from pvg_hf.run.schedule import PhaseKey, finished_phases, read_record

logger = logging.getLogger(__name__)


def prepare_resume(recipe: Recipe, folder: RunFolder, problems: GameProblems, processes: PartialState) -> None:
    """
    Check that an existing run in the folder can be resumed, and update its derived files.

    Raises:
        ValueError: if it cannot be resumed; the folder is then unchanged.
    """
    check_same_recipe(folder, recipe)
    check_finished_phases(recipe, folder)
    check_same_problems(folder, recipe, problems)
    unchecked = unchecked_phases(recipe, folder)
    if unchecked:
        logger.info(
            "%d finished phase(s) were played by an older version, which kept no digests: damage that leaves a file "
            "readable is not found in them.",
            len(unchecked),
        )
    check_processes(folder, recipe, processes.num_processes)
    folder.mend_events()
    _note_environment(recipe, folder, processes, problems.task.isolation)
    folder.write_recipe(recipe)
    write_derived(recipe, folder)  # a crash may have left them older than the finished phases
    if _is_report_due(recipe, folder):
        refresh_report(recipe, folder)


def write_derived(recipe: Recipe, folder: RunFolder) -> None:
    """Write `state.json`, `metrics.jsonl` and missing events from the folders of finished phases and evaluations."""
    finished = finished_phases(recipe, folder)
    lines = [line for key in finished for line in read_json_lines(key.target(folder) / METRICS)]
    folder.write_lists([str(key) for key in finished], [*lines, *judgement_lines(folder)])
    for key in finished:
        record = read_record(key.target(folder))
        if record is None:  # the game did not make this folder
            continue
        fields = {"phase": key.name, "round": key.round_index, "seconds": record.seconds, "summary": record.summary}
        further = {"task_use": record.task_use, "split": record.split, "peak_flops": record.peak_flops}
        fields |= {name: value for name, value in further.items() if value is not None}
        if not folder.has_event("phase_finished", **fields):
            folder.log_event("phase_finished", **fields, time=record.ended)
        _log_alerts(folder, key, record.alerts or [])
        _log_calls(folder, key)


def _log_alerts(folder: RunFolder, key: PhaseKey, alerts: list[dict[str, Any]]) -> None:
    """Log a phase's alerts that the event log lacks, as it does in a run that was pulled."""
    for alert in alerts:
        fields = {"phase": key.name, "round": key.round_index, "kind": alert["kind"], "message": alert["message"]}
        if not folder.has_event("alert", **fields):
            folder.log_event("alert", **fields, time=alert["time"])


def _log_calls(folder: RunFolder, key: PhaseKey) -> None:
    """Log a summary of a phase's checker calls; the single calls are in the phase's own `events.jsonl`."""
    file = key.target(folder) / CALL_SUMMARY
    if not file.exists():
        return
    summary = read_json(file)
    counts = {name: summary[name] for name in ("calls", "flagged", "abstained", "cost", "digest")}
    fields = {"phase": key.name, "round": key.round_index, **counts}
    if not folder.has_event("checks", **fields):
        folder.log_event("checks", **fields)


def refresh_report(recipe: Recipe, folder: RunFolder) -> None:
    """Write the report again, if the recipe asks for one. An error does not end the game; the next start tries again."""
    if recipe.logging.report:
        with only_warning("The report could not be written; the game continues"):
            write_report(folder.root)


def _is_report_due(recipe: Recipe, folder: RunFolder) -> bool:
    """Whether a round was evaluated after the report was written."""
    evaluated = [key.target(folder) for key in finished_phases(recipe, folder) if key.name == "evaluate"]
    written = folder.report.stat().st_mtime if folder.report.exists() else 0.0
    return any(file.stat().st_mtime > written for target in evaluated for file in target.glob(FIGURES))


def _note_environment(recipe: Recipe, folder: RunFolder, processes: PartialState, isolation: str | None) -> None:
    """Write `run.json`. Differences from the last start are logged, and recorded as an event."""
    now, before = describe_environment(recipe, processes), folder.read_environment()
    if isolation is not None:
        now["sandbox"] = isolation
    common = before.keys() & now.keys() - {"launcher"}  # the launch command may differ
    changes = differences({key: before[key] for key in common}, {key: now[key] for key in common})
    if changes:
        folder.log_event("environment_changed", changes=changes)
        summary = ", ".join(f"{name} {old} before, {new} now" for name, (old, new) in changes.items())
        logger.warning(
            "Changed since the last start: %s. Results may differ from those of an uninterrupted run.", summary
        )
    folder.write_environment(now)
