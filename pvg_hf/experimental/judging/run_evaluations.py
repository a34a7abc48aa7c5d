"""
Evaluates finished rounds of a run. A result is stored beside the round and is not computed again.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from pvg_hf.config import Recipe
from pvg_hf.config.load import parse_override
from pvg_hf.config.recipe import merge
from pvg_hf.config.trust import admit_recipe, marked_settings, origin_of
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.extensions import suggest
from pvg_hf.core.files import remove, write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.judging.judged_round import JudgedRound, JudgedRun
from pvg_hf.experimental.judging.round_evaluations import EVALUATIONS, RoundEvaluation, find_evaluation
from pvg_hf.game.limits import naming_full_disk
from pvg_hf.game.publish import refresh_report
from pvg_hf.run.judgements import Judgement, judgement_folder, judgement_folders
from pvg_hf.run.layout import JUDGEMENT, RunFolder, partial_of
from pvg_hf.run.lock import locked
from pvg_hf.run.phase_record import recording, staged
from pvg_hf.run.resume import write_derived

logger = logging.getLogger(__name__)

SETTINGS_FILE = "settings.json"  # in the folder of a result from its beginning, so that it resumes with them


def evaluate_run(
    root: Path,
    *,
    round_index: int | Literal["all"] = "all",
    only: Sequence[str] = (),
    overrides: Iterable[str] = (),
    again: bool = False,
    num_workers: int | None = None,
    executor: Executor | None = None,
) -> list[Judgement]:
    """
    Evaluate rounds of a run, and update its metrics and report.

    Args:
        root: Folder of the run, played here or pulled from the Hub. It may still be played.
        round_index: The round, or all rounds whose players are on disk.
        only: Names of evaluations; by default all but the costly ones.
        overrides: Settings as `NAME.key=value`. A setting that is not given is that of the stored or unfinished
            result, or else the default.
        again: Whether to delete stored results of these rounds and evaluations first, with their settings. Attackers
            that were trained are kept.
        num_workers, executor: Processes for evaluations that consist of independent trainings: see
            [`~pvg_hf.run.jobs.run_jobs`] and [`~pvg_hf.run.jobs.default_workers`].
    Returns: the results, also those that were stored before.
    Raises `ValueError` for an unknown evaluation or setting, a round without the files that it needs, or other
    settings
        than those of a stored result.
    Raises `UntrustedCodeError` if the recipe came with a pulled run and needs consent that the user has not given yet.
    Raises `JobsFailedError` if attackers could not be trained; the others are kept.
    """
    run = JudgedRun.open(Path(root))
    stated = _read_overrides(overrides)
    names = list(dict.fromkeys(only)) or [name for name, found in EVALUATIONS.items() if not found.is_costly]
    chosen = {name: find_evaluation(name) for name in names}
    unused = sorted(stated.keys() - chosen.keys())
    if unused:
        raise ValueError(f"Settings of `{unused[0]}`, which is not evaluated: {suggest(unused[0], chosen)}")
    rounds = {name: _choose_rounds(run, evaluation, round_index) for name, evaluation in chosen.items()}
    for setting in admit_recipe(run.recipe):
        logger.info("The recipe %s %s", setting.effect.verb, setting)
    results = []
    with _refreshing(run.folder):
        for name, evaluation in chosen.items():
            settings = stated.get(name, {})
            prepare = evaluation.prepare and partial(evaluation.prepare, num_workers=num_workers, executor=executor)
            results += _evaluate_rounds(
                name, replace(evaluation, prepare=prepare), rounds[name], settings, again=again
            )
    return results


def _choose_rounds(
    run: JudgedRun, evaluation: RoundEvaluation, round_index: int | Literal["all"]
) -> list[JudgedRound]:
    if round_index != "all":
        judged = run.round(round_index)
        missing = judged.find_missing(evaluation.phases)
        if missing is not None:
            raise ValueError(f"Round {round_index} cannot be evaluated: {missing}.")
        return [judged]
    found = []
    for k in sorted({k for kind in ("verifier", "pool") for k in run.folder.rounds(kind)}):
        missing = run.round(k).find_missing(evaluation.phases)
        if missing is None:
            found.append(run.round(k))
        else:
            logger.info("Round %d is left out: %s.", k, missing)
    if not found:
        raise ValueError(f"{run.folder.root} has no round with the results of {', '.join(evaluation.phases)}.")
    return found


def _evaluate_rounds(
    name: str, evaluation: RoundEvaluation, rounds: list[JudgedRound], stated: Mapping[str, Any], *, again: bool
) -> list[Judgement]:
    folder = rounds[0].folder
    place = judgement_folder(folder, name, 0).parent
    user = f"The evaluation `{name}` of {{root}} is being computed"
    with naming_full_disk(folder.root), locked(place, is_main=True, user=user):
        targets = {judged.round_index: judgement_folder(folder, name, judged.round_index) for judged in rounds}
        if again:
            for target in targets.values():
                remove(target)
                remove(partial_of(target))
        settings = {k: _settings_for(name, evaluation, target, stated) for k, target in targets.items()}
        for judged in rounds:
            _remove_outdated(evaluation, judged, targets[judged.round_index], name, stated)
        todo = [judged for judged in rounds if not targets[judged.round_index].exists()]
        for judged in todo:  # before anything is computed, so that a resumed evaluation finds its settings
            file = partial_of(targets[judged.round_index]) / SETTINGS_FILE
            if not file.exists():  # the last write of a killed start tells how long it ran
                write_json(file, asdict(settings[judged.round_index]))
        if todo and evaluation.prepare is not None:
            evaluation.prepare([(judged, settings[judged.round_index]) for judged in todo])
        for judged in todo:
            _judge(name, evaluation, judged, settings[judged.round_index], targets[judged.round_index])
    return [Judgement.read(target) for target in targets.values()]


def _remove_outdated(
    evaluation: RoundEvaluation, judged: JudgedRound, target: Path, name: str, stated: Mapping[str, Any]
) -> None:
    """
    Remove a stored result if the other results that it has read have changed.

    Raises `ValueError` if it came with a pulled run, with settings that need the user's consent, and they are not
    stated: it is computed again with the stored settings.
    """
    inputs = None if evaluation.inputs is None else evaluation.inputs(judged)
    if inputs is None or not target.exists() or Judgement.read(target).inputs == inputs:
        return
    if origin_of(target) is not None:
        stored = _read_settings(TypeAdapter(evaluation.settings), name, Judgement.read(target).settings)
        foreign = [one for one in marked_settings(stored) if one.key.split(".")[0] not in stated]
        if foreign:
            listed = "\n".join(f"- {replace(one, key=f'{name}.{one.key}')}" for one in foreign)
            raise ValueError(
                f"{target} came with a pulled run and has to be computed again, by settings that need your consent:"
                f"\n{listed}\nGive them, or others, as overrides (`{name}.KEY=VALUE`)."
            )
    logger.info("%s is computed again: what it reads has changed.", target)
    remove(target)


def _judge(name: str, evaluation: RoundEvaluation, judged: JudgedRound, settings: Any, target: Path) -> None:
    started = time.monotonic()
    with staged(target, is_main=True) as output, recording(output, 1, is_main=True) as record:
        figures = dict(evaluation.judge(judged, settings, output))
        seconds = record.seconds + time.monotonic() - started
        result = Judgement(
            name,
            judged.round_index,
            evaluation.title,
            evaluation.terms,
            figures,
            asdict(settings),
            seconds,
            inputs=evaluation.inputs and evaluation.inputs(judged),
        )
        result.write(output)
        record.summary = f"{len(figures)} figures"
    logger.info("%s of %s: %d figures (%s)", name, round_name(judged.round_index), len(figures), show_seconds(seconds))


@contextmanager
def _refreshing(folder: RunFolder) -> Iterator[None]:
    """
    After the block, also if it fails, write the run's metrics and report again if they lack a result. If the run is
    being played, its next phase does.
    """
    try:
        yield
    finally:
        recipe = folder.read_recipe()
        if _lacks_results(recipe, folder):
            try:
                with locked(folder.root, is_main=True):
                    write_derived(recipe, folder, error=folder.read_error())
                    refresh_report(recipe, folder)
            except ValueError as err:
                logger.info("Metrics and report are not updated yet: %s", err)


def _lacks_results(recipe: Recipe, folder: RunFolder) -> bool:
    """
    Whether a result is newer than the metrics or the report, also if an earlier call was killed before it wrote them.
    """
    shown = [folder.metrics, folder.report] if recipe.logging.report else [folder.metrics]
    written = min(file.stat().st_mtime_ns if file.exists() else 0 for file in shown)
    return any((path / JUDGEMENT).stat().st_mtime_ns > written for path in judgement_folders(folder))


def _settings_for(name: str, evaluation: RoundEvaluation, target: Path, stated: Mapping[str, Any]) -> Any:
    """
    Return the settings of a round's result: those stated, or else those of the stored or unfinished result.

    Raises `ValueError` for an unknown or invalid setting, or one that differs from the stored result's.
    """
    adapter = TypeAdapter(evaluation.settings)
    wanted = _read_settings(adapter, name, stated)
    known = _known_settings(target)
    if known is None:
        return wanted
    values = asdict(wanted)
    changes = [
        f"`{name}.{key}`: {known.get(key)!r} before, {values[key]!r} now"
        for key in stated
        if values[key] != known.get(key)
    ]
    if changes:
        raise ValueError(
            f"{target.name} was evaluated with other settings:\n- "
            + "\n- ".join(changes)
            + "\nGive the former ones, or "
            "`--again`, which deletes the stored result."
        )
    return _read_settings(adapter, name, {key: value for key, value in known.items() if key in values})


def _known_settings(target: Path) -> dict[str, Any] | None:
    if target.exists():
        return Judgement.read(target).settings
    unfinished = partial_of(target) / SETTINGS_FILE
    return read_json(unfinished, dict[str, Any]) if unfinished.exists() else None


def _read_settings(adapter: TypeAdapter, name: str, values: Mapping[str, Any]) -> Any:
    try:
        return adapter.validate_python(dict(values))
    except ValidationError as err:
        lines = [
            f"- `{'.'.join(map(str, (name, *error['loc'])))}`: {error['msg']} (got {error['input']!r:.80})"
            for error in err.errors()
        ]
        raise ValueError("\n".join([f"Settings of `{name}` with mistakes:", *lines])) from err


def _read_overrides(overrides: Iterable[str]) -> dict[str, dict[str, Any]]:
    values: dict[str, Any] = {}
    for override in overrides:
        values = merge(values, parse_override(override))
    wrong = [name for name, value in values.items() if not isinstance(value, dict)]
    if wrong:
        raise ValueError(
            f"Cannot read the setting `{wrong[0]}`; write `NAME.key=value`, e.g. `best_of_n.num_samples=256`."
        )
    for name in values:
        find_evaluation(name)
    return values
