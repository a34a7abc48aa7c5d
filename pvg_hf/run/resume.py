"""
Resumes a run: whether a recipe, its problems and processes may continue it, and the files that follow from its phases.
"""

import logging
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.fields import MayChange, WholeGame, default_of, fields_of, marked_keys, sections_of
from pvg_hf.config.recipe import NOT_PUBLISHED, leaves
from pvg_hf.core.commands import delete_command, play_command, pvg_command
from pvg_hf.core.disk_names import BASE_ROUND, CALIBRATION
from pvg_hf.core.files import write_json, write_json_lines
from pvg_hf.core.integrity import (
    DIGESTS,
    DamagedFileError,
    find_damaged,
    missing_files,
    read_digests,
    read_json,
    read_json_lines,
)
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.run.environment import describe_environment, launcher_for
from pvg_hf.run.judgements import judgement_lines
from pvg_hf.run.layout import (
    CALL_SUMMARY,
    FIGURES,
    HELDOUT,
    METRICS,
    PHASE_RECORD,
    PROBLEMS,
    ROUND_PHASES,
    PhaseKey,
    RunFolder,
    begun_phases,
    early_phases,
    finished_phases,
    partial_of,
    phase_settings,
    pool_file,
    pool_test_file,
    schedule,
    unfinished,
)
from pvg_hf.run.phase_record import PhaseAlert, keeps_work, read_begun_record, read_record
from pvg_hf.run.stored import CallSummary, MetricLine

if TYPE_CHECKING:
    from accelerate import PartialState

    from pvg_hf.data.problems import GameProblems

logger = logging.getLogger(__name__)

TRAINING = ("verifier", "prover")  # phases that resume from a checkpoint

NUM_NAMED = 5  # deleted files that a message names


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


def read_played_recipe(folder: RunFolder) -> Recipe:
    """
    Load a run's recipe, and compare it with the settings that its phases were played with.

    Raises `DamagedFileError` if they differ, naming each key with both values, or if the recipe cannot be read.
    """
    recipe = folder.read_recipe()
    finished = finished_phases(recipe, folder)
    sealed = {key: read_digests(key.target(folder)).settings for key in finished}
    if changes := _changes_since(recipe, sealed):
        first = next(key for key, settings in sealed.items() if _changes_since(recipe, {key: settings}))
        raise DamagedFileError(
            folder.recipe,
            f"was changed after phases were played with it, whose settings are in {first.target(folder) / DIGESTS}:\n"
            + "\n".join(changes),
            "Put the former values back; for a game with the new ones, "
            f"`{pvg_command('play', folder.recipe, 'name=NEW_NAME')}`.",
        )
    return recipe


def check_same_recipe(folder: RunFolder, recipe: Recipe) -> None:
    """
    Check that a run may be resumed with a recipe: its phases so far must have been played with the same settings.

    Raises `ValueError` with all differences if they were not; `DamagedFileError` if the recipe in the folder was
    changed.
    """
    stored = read_played_recipe(folder) if folder.recipe.exists() else recipe
    begun = begun_phases(stored, folder)
    finished = [key for key in begun if key.target(folder).exists()]
    _check_changes(stored, recipe, {key: read_digests(key.target(folder)).settings for key in finished})
    partial = {key: partial_of(key.target(folder)) for key in begun if key not in finished}
    kept = {key: place for key, place in partial.items() if keeps_work(place)}
    try:
        _check_changes(stored, recipe, {key: read_digests(place).settings for key, place in kept.items()})
    except ValueError as err:
        deletions = " && ".join(map(delete_command, kept.values()))
        raise ValueError(
            f"{err} Nothing of {', '.join(map(str, kept))} is finished: to play it with this recipe, delete what there"
            f" is of it by `{deletions}`, and give the same command."
        ) from err


def describe_changes(folder: RunFolder, recipe: Recipe) -> list[str]:
    """Describe the settings of a recipe that differ from those in the run's folder, and from which phase they hold."""
    if not folder.recipe.exists():
        return []
    stored, left = folder.read_recipe(), unfinished(recipe)
    found: dict[str, str] = {}
    # Settings of the whole game take effect in the first round that is not finished.
    rounds = {None, *(key.round_index for key in left[:1]), *recipe.rounds, *stored.rounds}
    for key in left:
        for line in _changes_since(recipe, {key: phase_settings(stored, key)}) if key.round_index in rounds else ():
            found.setdefault(line, f"{line.removeprefix('- ')}, from {key} on")
    return list(found.values())


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
    Check that a recipe may continue a run of the recipe `stored`, of which `num_begun` rounds were begun.

    Local paths that publishing removed from `stored` may have any value now.

    Raises `ValueError` if settings of these rounds, or of what came before them, differ; the message lists all
    differences.
    """
    rounds = [PhaseKey(name, k) for k in range(num_begun) for name in ROUND_PHASES]
    _check_changes(stored, recipe, dict.fromkeys([*early_phases(stored), *rounds]))


def _check_changes(stored: Recipe, recipe: Recipe, played: Mapping[PhaseKey, dict[str, Any] | None]) -> None:
    """
    Check that phases would be played with the same settings again. `played` has the settings of each; `None` stands
    for those of the recipe `stored`.
    """
    root = RunFolder.of(recipe).root
    if stored.name != recipe.name and RunFolder(root).recipe.is_file():
        back = root.with_name(stored.name)
        raise ValueError(
            f"The folder {root} holds the run `{stored.name}`, and was renamed. To play it on, name it as it was:"
            f" `{shlex.join(['mv', str(root), str(back)])} && {play_command(back)}`."
        )
    settings = {key: phase_settings(stored, key) if values is None else values for key, values in played.items()}
    lines = _changes_since(recipe, settings)
    if recipe.num_rounds < stored.num_rounds:
        lines.append(f"- `num_rounds`: {stored.num_rounds} before, {recipe.num_rounds} now (may only grow)")
    if lines:
        begun = _num_begun(played)
        raise ValueError(
            f"The run `{recipe.name}` was started with another recipe:\n"
            + "\n".join(lines)
            + f"\nResume it with its own {RunFolder.of(recipe).recipe} by `{play_command(root)}`,"
            f" or give this one another `name`. Rounds that have not started, here from {begun} on, may be"
            f" changed by overrides, such as `rounds.{begun}.prover.beta=0.1`."
        )


def _changes_since(recipe: Recipe, played: Mapping[PhaseKey, dict[str, Any] | None]) -> list[str]:
    """Lines with the settings of phases that a recipe changes, with the value before and the one now."""
    lines: list[str] = []
    of_game = leaves(recipe.to_dict())
    for phase, before in played.items():
        if before is None:
            continue
        now = phase_settings(recipe, phase)
        # A key that was marked since as one of later phases does not count.
        known = {key: value for key, value in before.items() if key in now or key not in of_game}
        for key, (old, new) in differences(_with_new_keys(known, now), now).items():
            if not _differs_in_paths_alone(old, new):
                name = key if new == of_game.get(key) else f"rounds.{phase.round_index}.{key}"
                lines.append(f"- `{name}`: {old!r} before, {new!r} now")
    return sorted(set(lines))


def _with_new_keys(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Add the defaults of keys that the version which wrote the settings `before` did not have."""
    defaults = dict(_defaults(Recipe))
    missing = [key for key in now.keys() - before.keys() if key in defaults]
    parents = {key: {key[:place] for place, letter in enumerate(key) if letter == "."} for key in missing}
    return {**before, **{key: defaults[key] for key in missing if parents[key].isdisjoint(before)}}


def known_settings() -> set[str]:
    """Keys of a recipe as `section.key`."""
    return {key for key, _ in _defaults(Recipe) if "." in key}


def _defaults(config: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    sections = dict(sections_of(config))
    for name in fields_of(config):
        yield prefix + name, default_of(config, name)
        if name in sections:
            yield from _defaults(sections[name], f"{prefix}{name}.")


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
        record = read_begun_record(partial)
        if key.name in TRAINING and record is not None and record.num_processes != num_processes:
            raise ValueError(
                f"Phase `{key}` was started by {record.num_processes} process(es) and cannot resume in"
                f" {num_processes}: its batches and checkpoints are those of {record.num_processes}. Start it by"
                f" `{play_command(folder.root, launcher=launcher_for(record.num_processes))}`. To play the phase from"
                f" its beginning, delete what there is of it: `{delete_command(partial)}`."
            )


def write_derived(recipe: Recipe, folder: RunFolder, *, error: str | None = None) -> None:
    """
    Write `state.json`, `metrics.jsonl` and missing events from the folders of finished phases and evaluations. The
    state also has the `error` that ended the last start, if any.
    """
    finished = finished_phases(recipe, folder)
    lines = [line for key in finished for line in read_json_lines(key.target(folder) / METRICS, MetricLine)]
    write_json_lines(folder.metrics, [*lines, *judgement_lines(folder)])
    folder.write_state(finished, error)
    for key in finished:
        record = read_record(key.target(folder))
        if record is None:  # the game did not make this folder
            continue
        fields = {**key.fields, "seconds": record.seconds, "summary": record.summary}
        split = {kind: asdict(spent) for kind, spent in record.split.items()}
        further = {"task_use": record.task_use, "split": split, "peak_flops": record.peak_flops}
        given = {name: value for name, value in further.items() if value is not None}
        if not folder.has_event("phase_finished", **fields, **given):
            folder.log_event("phase_finished", **fields, **given, time=record.ended)
        _log_alerts(folder, key, record.alerts)
        _log_calls(folder, key)


def _log_alerts(folder: RunFolder, key: PhaseKey, alerts: list[PhaseAlert]) -> None:
    """Log a phase's alerts that the event log lacks, as it does in a run that was pulled."""
    for alert in alerts:
        fields = {**key.fields, "kind": alert.kind, "message": alert.message}
        if not folder.has_event("alert", **fields):
            folder.log_event("alert", **fields, time=alert.time)


def _log_calls(folder: RunFolder, key: PhaseKey) -> None:
    """Log a summary of a phase's checker calls; the single calls are in the phase's own `events.jsonl`."""
    file = key.target(folder) / CALL_SUMMARY
    if not file.exists():
        return
    summary = read_json(file, CallSummary)
    fields = key.fields | {name: vars(summary)[name] for name in ("calls", "flagged", "abstained", "cost", "digest")}
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


def find_missing(folder: RunFolder, recipe: Recipe) -> list[Path]:
    """Files of finished phases that were deleted. The weights of rounds that are over may be, and are left out."""
    finished = finished_phases(recipe, folder)
    last = {key.name: key for key in finished}
    records = [key.target(folder) / name for key in finished for name in (DIGESTS, PHASE_RECORD)]
    is_old = not any(path.exists() for path in records)  # a run of a version without them
    return [
        *(path for path in records if not path.exists() and not is_old),
        *(
            path
            for key in finished
            for path in missing_files(key.target(folder))
            if key == last[key.name] or path.suffix != ".safetensors"
        ),
    ]


def describe_missing(files: Sequence[Path]) -> str:
    """Name deleted files in a sentence, the first few of them."""
    more = f" and {len(files) - NUM_NAMED} more" if len(files) > NUM_NAMED else ""
    return f"Files of finished phases were deleted: {', '.join(map(str, files[:NUM_NAMED]))}{more}."


def is_read_next(recipe: Recipe, name: str) -> bool:
    """Whether the next phase of a run depends on a key, as far as is known."""
    left = unfinished(recipe)
    read = {*marked_keys(Recipe, MayChange), *(phase_settings(recipe, left[0]) if left else ())}
    return not {name, name.split(".")[0]}.isdisjoint(read)


def free_settings(folder: RunFolder, recipe: Recipe, keys: Iterable[str]) -> list[str]:
    """
    Return those of some keys that may change, because no finished phase depends on them. A key on which only earlier
    rounds depend is given as that of the round in play, `rounds.1.verifier.max_steps`.
    """
    finished, left = finished_phases(recipe, folder), unfinished(recipe)
    index = left[0].round_index if left else None
    fixed = {key: phase_settings(recipe, key).keys() for key in finished}
    of_round = set().union(*(names for key, names in fixed.items() if key.round_index == index))
    whole = marked_keys(Recipe, WholeGame)
    found = []
    for name in keys:
        if not any(name in names for names in fixed.values()):
            found.append(name)
        elif index is not None and name not in of_round and not {name, name.split(".")[0]} & {*whole}:
            found.append(f"rounds.{index}.{name}")
    return found


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
