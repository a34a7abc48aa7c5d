"""Lists what a recipe does beyond its run, and decides whether it may: somebody else's needs the user's consent."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from pvg_hf.config.fields import Asks, default_of, marks_of, names_code
from pvg_hf.config.recipe import NOT_PUBLISHED, Origin, Recipe, leaves
from pvg_hf.core.extensions import (
    AskedSetting,
    Effect,
    UntrustedCodeError,
    allow_code,
    refuse_withheld,
    withhold_code,
)
from pvg_hf.core.files import write_text
from pvg_hf.core.integrity import RECIPE_FILE

ORIGIN = "origin.json"
"""File in the folder of a pulled run: where the run came from, and what of its recipe the user trusts."""

_TASKS = "pvg_hf.tasks.registry"  # of a higher layer; it is imported if a recipe sets options of a built-in task


def list_settings(recipe: Recipe) -> list[AskedSetting]:
    """
    List the settings of a recipe that need consent if it is somebody else's (see [`~pvg_hf.config.fields.Asks`]).

    Those of the whole game come first, then what single rounds change.
    """
    found = _of_rounds(recipe, lambda part: [*marked_settings(part), *_task_options(part)])
    is_at_home = recipe.origin is not None and Path(recipe.output_dir, recipe.name).resolve() == recipe.origin.folder
    return [one for one in found if not (is_at_home and one.key == "output_dir")]


def _list_code(recipe: Recipe) -> list[AskedSetting]:
    """List the code that a recipe names, without importing anything."""
    return _only_code(_of_rounds(recipe, marked_settings))


def _only_code(settings: Iterable[AskedSetting]) -> list[AskedSetting]:
    return [one for one in settings if one.effect is Effect.RUNS]


def _of_rounds(recipe: Recipe, find: Callable[[Recipe], Iterable[AskedSetting]]) -> list[AskedSetting]:
    whole = list(find(recipe))
    changed = {index: [one for one in find(recipe.for_round(index)) if one not in whole] for index in recipe.rounds}
    return whole + [
        replace(one, key=f"rounds.{index}.{one.key}") for index, settings in changed.items() for one in settings
    ]


def marked_settings(config: Any) -> Iterator[AskedSetting]:
    """Yield the settings in the marked keys of a section, such as those of a recipe, that differ from the defaults."""
    for key, mark in marks_of(type(config), Asks):
        *sections, name = key.split(".")
        section = config
        for part in sections:
            section = None if section is None else vars(section)[part]
        if section is None or (mark.beside is not None and not names_code(vars(section)[mark.beside])):
            continue
        value = vars(section)[name]
        if value not in (default_of(type(section), name), NOT_PUBLISHED):
            yield from mark.settings(key, value)


def _task_options(recipe: Recipe) -> Iterator[AskedSetting]:
    """Yield what a built-in task marks of its options; those of a custom task are marked in the recipe."""
    task = recipe.task
    if not task.options or names_code(task.name):
        return
    try:
        marks = import_module(_TASKS).find_task_class(task.name).asked_options
    except ValueError:  # an unknown task, which does nothing
        return
    for option, value in task.options.items():
        if option in marks:
            yield from marks[option].settings(f"task.options.{option}", value)


def admit_recipe(recipe: Recipe, *sections: str) -> list[AskedSetting]:
    """
    Check that a recipe may be used; call this before anything is done with it.

    Args:
        sections: The sections that will be used, such as `task`; by default all.
    Returns: what those sections do beyond the run.
    Raises `UntrustedCodeError` if the recipe came with a pulled run and the user has not trusted all of that.
    """
    settings = list_settings(recipe)
    used = [one for one in settings if not sections or _section_of(one) in sections]
    if recipe.origin is not None:
        foreign = _find_foreign(settings, recipe.origin)  # all are shown, so that the user is asked once
        if any(one in foreign for one in used):
            raise UntrustedCodeError(recipe.origin.folder, foreign)
    refuse_withheld(_only_code(used))
    return used


def _section_of(setting: AskedSetting) -> str:
    parts = setting.key.split(".")
    return parts[2] if parts[0] == "rounds" else parts[0]


def _find_foreign(settings: Iterable[AskedSetting], origin: Origin) -> list[AskedSetting]:
    """Return the settings that the user has neither trusted nor stated."""
    trusted = _read_trusted(origin.folder)
    return [one for one in settings if one not in trusted and one.key not in origin.stated]


def guard_file(path: Path, recipe: Recipe, stated: Mapping[str, Any]) -> None:
    """
    Note whether the recipe in a file is somebody else's, when the file is loaded.

    In the folder of a pulled run it is: of what needs consent, only what the user has trusted, or `stated` in
    overrides, may be used ([`admit_recipe`]), and no code but this may run in this process. Elsewhere it is the user's
    own.
    """
    code, folder = _list_code(recipe), origin_of(path)
    recipe.origin = None if folder is None else Origin(folder, frozenset(leaves(dict(stated))))
    foreign = [] if recipe.origin is None else _find_foreign(code, recipe.origin)
    allow_code(one for one in code if one not in foreign)
    if folder is not None:
        withhold_code(folder, foreign)


def trust_recipe(path: Path, recipe: Recipe, *, is_recorded: bool = True) -> list[str]:
    """
    Trust what the recipe in a pulled run's file does beyond the run, now and later. A value that changes needs consent
    again.

    Args:
        is_recorded: Whether this process records the consent in the run's folder.
    Returns: a line for each newly trusted setting; empty for the user's own recipe.
    Raises `ValueError` if the consent cannot be recorded.
    """
    folder = origin_of(path)
    if folder is None:
        return []
    settings, trusted = list_settings(recipe), _read_trusted(folder)
    new = [one for one in settings if one not in trusted]
    if is_recorded and new:
        try:
            _write(folder, {**_read(folder), "trusted": _recorded([*trusted, *new])})
        except OSError as err:
            raise ValueError(f"Cannot record what you trust in {folder / ORIGIN}: {err.strerror}.") from err
    allow_code(_only_code(settings))
    recipe.origin = Origin(folder, frozenset(one.key for one in settings))  # also if another process records it
    return [str(one) for one in new]


def write_origin(folder: Path, run: str, round_index: int | None = None, trusted: Sequence[AskedSetting] = ()) -> None:
    """
    Mark a run's folder as that of `run` (`NAMESPACE/RUN`), pulled up to a round, with settings that the user's recipe
    also has.
    """
    _write(folder, {"run": run, "round": round_index, "trusted": _recorded(trusted)})


def origin_of(path: Path) -> Path | None:
    """
    Return the pulled run's folder that contains a file, under the path given or behind its links; `None` if there is
    none.

    It is the outermost one: an `origin.json` that came with the run's own files decides nothing.
    """
    parents = (*path.resolve().parents, *path.absolute().parents)
    found = [folder.resolve() for folder in parents if (folder / ORIGIN).exists() and _is_run(folder)]
    return min(found, key=lambda folder: len(folder.parts), default=None)


def _is_run(folder: Path) -> bool:
    """Whether a folder with an `origin.json` is that of a run, and the file not one of another program."""
    return (folder / RECIPE_FILE).exists() or "run" in _read(folder)


def read_origin(folder: Path) -> str | None:
    """The published run, e.g. `NAMESPACE/RUN`, that a run's folder was pulled from, if any."""
    return _read(folder).get("run")


def _read(folder: Path) -> dict[str, Any]:
    """Read the origin file; a damaged file counts as empty, so that nothing is trusted."""
    try:
        values = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _read_trusted(folder: Path) -> list[AskedSetting]:
    entries = _read(folder).get("trusted")
    entries = entries if isinstance(entries, list) else []
    return [AskedSetting(**entry) for entry in entries if isinstance(entry, dict) and entry.keys() == {"key", "value"}]


def _recorded(settings: Sequence[AskedSetting]) -> list[dict[str, str]]:
    return [{"key": one.key, "value": one.value} for one in settings]


def _write(folder: Path, values: Mapping[str, Any]) -> None:
    write_text(folder / ORIGIN, json.dumps(values, indent=2) + "\n")
