"""
Resumes a run: whether a recipe, its problems and processes may continue it, and the files that follow from its phases.
"""

import logging
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.fields import MayChange, marked_keys, without_keys
from pvg_hf.config.recipe import NOT_PUBLISHED, leaves
from pvg_hf.core.commands import delete_command, play_command
from pvg_hf.core.disk_names import BASE_ROUND, CALIBRATION
from pvg_hf.core.files import write_json, write_json_lines
from pvg_hf.core.integrity import DamagedFileError, find_damaged, missing_files, read_json, read_json_lines
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.run.environment import describe_environment, launcher_for
from pvg_hf.run.judgements import judgement_lines
from pvg_hf.run.layout import (
    CALL_SUMMARY,
    FIGURES,
    HELDOUT,
    METRICS,
    PROBLEMS,
    PhaseKey,
    RunFolder,
    begun_phases,
    finished_phases,
    partial_of,
    pool_file,
    pool_test_file,
    schedule,
    unfinished,
)
from pvg_hf.run.phase_record import read_record

if TYPE_CHECKING:
    from accelerate import PartialState

    from pvg_hf.data.problems import GameProblems

logger = logging.getLogger(__name__)

TRAINING = ("verifier", "prover")  # phases that resume from a checkpoint


def prepare_resume(recipe: Recipe, folder: RunFolder, problems: "GameProblems", processes: "PartialState") -> None:
    """
    Check that an existing run in the folder can be resumed, and update its derived files.

    Raises `ValueError` if it cannot be resumed; the folder is then unchanged.
    """
    check_same_recipe(folder, recipe)
    check_finished_phases(recipe, folder)
    check_same_problems(folder, recipe, problems)
    check_processes(folder, recipe, processes.num_processes)
    folder.mend_events()
    _note_environment(recipe, folder, processes, problems.task.isolation)
    folder.write_recipe(recipe)
    write_derived(recipe, folder)  # a crash may have left them older than the finished phases


def check_same_recipe(folder: RunFolder, recipe: Recipe) -> None:
    """Check that a run may be resumed with a recipe; a `ValueError` if it was started with another one."""
    if folder.recipe.exists():
        stored = folder.read_recipe()
        begun = begun_phases(stored, folder)
        try:
            check_unchanged(stored, recipe, num_begun=_num_begun(begun))
        except ValueError as err:
            finished = [key for key in begun if key.target(folder).exists()]
            if not finished:
                raise ValueError(
                    f"{err} Nothing is finished yet: to begin with this recipe, delete the folder by "
                    f"`{delete_command(folder.root)}`."
                ) from err
            if not _is_unchanged(stored, recipe, num_begun=_num_begun(finished)):
                raise
            partial = " && ".join(
                delete_command(partial_of(key.target(folder))) for key in begun if key not in finished
            )
            raise ValueError(
                f"{err} Nothing of round {_num_begun(finished)} is finished: to play it with this recipe, delete what"
                f" there is of it by `{partial}`, and give the same command."
            ) from err


def extended_recipe(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """
    Add the rounds that a run was extended by to its recipe, so that the overrides need not be repeated.

    These are the larger `num_rounds` of the run's folder and the overrides of the added rounds. Nothing is added if
    one of `overrides`, which `recipe` has already, sets `num_rounds`.
    """
    folder = RunFolder.of(recipe)
    if not folder.recipe.exists() or any(override.startswith("num_rounds=") for override in overrides):
        return recipe
    stored = folder.read_recipe()
    if stored.num_rounds <= recipe.num_rounds:
        return recipe
    added = {k: values for k, values in stored.rounds.items() if k >= recipe.num_rounds and k not in recipe.rounds}
    logger.info("The run was extended to %d rounds; set `num_rounds` to change that.", stored.num_rounds)
    extended = load_recipe({**recipe.to_dict(), "num_rounds": stored.num_rounds, "rounds": {**recipe.rounds, **added}})
    # Of somebody else's run, the user's own recipe decides all but what is added.
    added_by = stored.origin and stored.origin._replace(stated=frozenset(leaves(recipe.to_dict())))
    return replace(extended, origin=recipe.origin or added_by)


def check_unchanged(stored: Recipe, recipe: Recipe, *, num_begun: int) -> None:
    """
    Check that two recipes differ only in what may change during a run. Rounds may be added.

    Local paths that publishing removed from `stored` may have any value now. `num_begun` rounds have started; later
    ones may have other overrides.

    Raises `ValueError` if the recipes differ in anything else; the message lists all differences.
    """
    changes = differences(_fixed_settings(stored, num_begun), _fixed_settings(recipe, num_begun))
    root = RunFolder.of(recipe).root
    if stored.name != recipe.name and RunFolder(root).recipe.is_file():
        raise ValueError(
            f"The folder {root} holds the run `{stored.name}`, and was renamed. To play it on, name it as it was:"
            f" `{shlex.join(['mv', str(root), str(root.with_name(stored.name))])}`."
        )
    lines = [
        f"- `{key}`: {before!r} before, {now!r} now"
        for key, (before, now) in changes.items()
        if not _differs_in_paths_alone(before, now)
    ]
    if recipe.num_rounds < stored.num_rounds:
        lines.append(f"- `num_rounds`: {stored.num_rounds} before, {recipe.num_rounds} now (may only grow)")
    if lines:
        raise ValueError(
            f"The run `{recipe.name}` was started with another recipe:\n"
            + "\n".join(lines)
            + f"\nResume it with its own {RunFolder.of(recipe).recipe} by `{play_command(RunFolder.of(recipe).root)}`,"
            f" or give this one another `name`. Rounds that have not started, here from {num_begun} on, may be"
            f" changed by overrides, such as `rounds.{num_begun}.prover.beta=0.1`."
        )


def _is_unchanged(stored: Recipe, recipe: Recipe, *, num_begun: int) -> bool:
    try:
        check_unchanged(stored, recipe, num_begun=num_begun)
    except ValueError:
        return False
    return True


def check_same_problems(folder: RunFolder, recipe: Recipe, problems: "GameProblems") -> None:
    """
    Check that an unfinished run is resumed with the test problems that it began with.

    The recipe does not show a change of the task's data or code, such as the second version of the arithmetic world.
    Evaluations need the solutions alone, and may be made in any case.

    Raises `ValueError` if the base prover solved a test problem that the task no longer has, or has with another text.
    """
    from pvg_hf.data.pool import iterate_pool  # late: loading `datasets` takes a second

    files = [file for role in GAME_ROLES if (file := folder.pool(BASE_ROUND) / pool_test_file(role)).exists()]
    if not files or all(key.name == "evaluate" for key in unfinished(recipe)):
        return
    test = problems.parts["test"]
    current = dict(zip(test["problem_id"], test["problem"], strict=True))
    for batch in iterate_pool(files, ["problem_id", "problem"]):
        for problem_id, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if current.get(problem_id) != text:
                raise ValueError(
                    f"The run `{recipe.name}` cannot be resumed: the task `{problems.task.name}` no longer has its"
                    f" test problem `{problem_id}`, {text[:60]!r}. Resume it with the data and the version of pvg_hf"
                    " that it began with, or give this recipe another `name`. What it has finished can still be read."
                )


def check_processes(folder: RunFolder, recipe: Recipe, num_processes: int) -> None:
    """Check that an unfinished training phase is resumed by as many processes as started it; else a `ValueError`."""
    for key in begun_phases(recipe, folder):
        partial = partial_of(key.target(folder))
        record = read_record(partial)
        if key.name in TRAINING and record is not None and record.num_processes != num_processes:
            raise ValueError(
                f"Phase `{key}` was started by {record.num_processes} process(es) and cannot resume in"
                f" {num_processes}: its batches and checkpoints are those of {record.num_processes}. Start it by"
                f" `{play_command(folder.root, launcher=launcher_for(record.num_processes))}`. To play the phase from"
                f" its beginning, delete what there is of it: `{delete_command(partial)}`."
            )


def write_derived(recipe: Recipe, folder: RunFolder) -> None:
    """Write `state.json`, `metrics.jsonl` and missing events from the folders of finished phases and evaluations."""
    finished = finished_phases(recipe, folder)
    lines = [line for key in finished for line in read_json_lines(key.target(folder) / METRICS)]
    write_json_lines(folder.metrics, [*lines, *judgement_lines(folder)])
    write_json(folder.state, {"finished": [str(key) for key in finished]})
    for key in finished:
        record = read_record(key.target(folder))
        if record is None:  # the game did not make this folder
            continue
        fields = {**key.fields, "seconds": record.seconds, "summary": record.summary}
        further = {"task_use": record.task_use, "split": record.split, "peak_flops": record.peak_flops}
        given = {name: value for name, value in further.items() if value is not None}
        if not folder.has_event("phase_finished", **fields, **given):
            folder.log_event("phase_finished", **fields, **given, time=record.ended)
        _log_alerts(folder, key, record.alerts)
        _log_calls(folder, key)


def _log_alerts(folder: RunFolder, key: PhaseKey, alerts: list[dict[str, Any]]) -> None:
    """Log a phase's alerts that the event log lacks, as it does in a run that was pulled."""
    for alert in alerts:
        fields = {**key.fields, "kind": alert["kind"], "message": alert["message"]}
        if not folder.has_event("alert", **fields):
            folder.log_event("alert", **fields, time=alert["time"])


def _log_calls(folder: RunFolder, key: PhaseKey) -> None:
    """Log a summary of a phase's checker calls; the single calls are in the phase's own `events.jsonl`."""
    file = key.target(folder) / CALL_SUMMARY
    if not file.exists():
        return
    summary = read_json(file)
    fields = key.fields | {name: summary[name] for name in ("calls", "flagged", "abstained", "cost", "digest")}
    if not folder.has_event("checks", **fields):
        folder.log_event("checks", **fields)


def _note_environment(recipe: Recipe, folder: RunFolder, processes: "PartialState", isolation: str | None) -> None:
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
    write_json(folder.environment, now)


def differences(before: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Differences between two nested mappings: the values before and now, by `section.key`."""
    old, new = leaves(before), leaves(now)
    keys = sorted(old.keys() | new.keys())
    return {key: (old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)}


def check_same_settings(
    what: str, before: dict[str, Any], now: dict[str, Any], *, free: Collection[str], advice: str = ""
) -> None:
    """
    Check that a command other than a game may resume with its settings, given its recipes as nested mappings.

    Args:
        what: What was started, e.g. "The sweep `levels`".
        free: Keys and sections that may differ, such as `output_dir` or `sweep.levels`.
        advice: A sentence on what may differ.

    Raises `ValueError` if other keys differ; the message lists them all.
    """
    lines = [
        f"- `{key}`: {old!r} before, {new!r} now"
        for key, (old, new) in differences(before, now).items()
        if not any(key == name or key.startswith(f"{name}.") for name in free)
    ]
    if lines:
        raise ValueError(
            f"{what} was started with another recipe:\n"
            + "\n".join(lines)
            + f"\nGive this one another `name`. {advice}".rstrip()
        )


def _fixed_settings(recipe: Recipe, num_begun: int) -> dict[str, Any]:
    """Settings that may not change any more."""
    changeable = marked_keys(Recipe, MayChange)
    begun = {index: values for index, values in recipe.rounds.items() if index < num_begun}
    of_rounds = {
        index: without_keys(values, [key for key in changeable if "." in key]) for index, values in begun.items()
    }
    return without_keys(recipe.to_dict(), changeable) | {"rounds": of_rounds}


def _differs_in_paths_alone(before: Any, now: Any) -> bool:
    """Whether two values differ only in local paths that publishing removed from the old one."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return all(old in (new, NOT_PUBLISHED) for old, new in zip(before, now, strict=True))
    return before == NOT_PUBLISHED


def _num_begun(phases: Iterable[PhaseKey]) -> int:
    """Number of rounds that these phases belong to, from the first one on."""
    return max((key.round_index for key in phases if key.round_index is not None), default=-1) + 1


# Files that are read long after their phase. Others, such as weights, may be deleted once no later phase reads them.
_KEPT = {METRICS, CALIBRATION, HELDOUT, FIGURES, PROBLEMS, *map(pool_file, Role), *map(pool_test_file, GAME_ROLES)}


def check_finished_phases(recipe: Recipe, folder: RunFolder) -> None:
    """Check the folders of all finished phases; the first damage is a `DamagedFileError`, which says what to do."""
    for damage in find_damage(recipe, folder).values():
        raise damage


def find_damage(recipe: Recipe, folder: RunFolder) -> dict[PhaseKey, DamagedFileError]:
    """
    Find damage in the folders of finished phases.

    Each existing file must be as it was written. A missing file is damage only if a later phase reads it, so that the
    weights of earlier rounds may be deleted.

    Returns: the damaged phases in order, with the first damage of each.
    """
    finished = finished_phases(recipe, folder)
    to_come = set(schedule(recipe)).difference(finished)
    needed = {earlier for key in to_come for earlier in _phases_read(recipe, key)}
    found = {key: damage_of(key, key.target(folder), is_needed=key in needed) for key in finished}
    return {key: damage for key, damage in found.items() if damage is not None}


def damage_of(key: PhaseKey, target: Path, *, is_needed: bool) -> DamagedFileError | None:
    """First damage in a finished phase's folder, if any; with `is_needed`, missing weights are damage, too."""
    for damage in find_damaged(target):
        return damage
    try:
        read_record(target)
    except DamagedFileError as err:
        return err
    missing = [path for path in missing_files(target) if is_needed or path.name in _KEPT]
    if is_needed and key.name in ("warmup", "verifier", "prover") and not has_weights(target):
        missing.append(target / "model.safetensors")
    return DamagedFileError(missing[0], "is missing") if missing else None


def has_weights(folder: Path) -> bool:
    """Whether a player's weights are below a folder: those of earlier rounds may be deleted, or not be downloaded."""
    return next(folder.rglob("*.safetensors"), None) is not None


def _phases_read(recipe: Recipe, key: PhaseKey) -> Iterator[PhaseKey]:
    """Earlier phases that a phase reads. Earlier pools are left out, because their files are looked up by name."""
    k = key.round_index
    yield PhaseKey("warmup")
    if k is None:
        return
    yield PhaseKey("bootstrap")
    config = recipe.for_round(k)
    if key.name == "verifier" and config.verifier.init == "warm":
        yield PhaseKey("verifier", k - 1)
    if key.name == "prover" and config.prover.init == "previous":
        yield PhaseKey("prover", k - 1)
    reads = {"prover": ("verifier",), "mint": ("verifier", "prover"), "evaluate": ("verifier", "mint")}
    yield from (PhaseKey(name, k) for name in reads.get(key.name, ()))
