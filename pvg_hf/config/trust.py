"""Lists the code that a recipe names, and decides whether it may run: somebody else's needs the user's permission."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pvg_hf.config.fields import NamesCode, marked_keys
from pvg_hf.config.recipe import Recipe
from pvg_hf.core.extensions import NamedCode, allow_code, refuse_withheld, withhold_code
from pvg_hf.core.files import write_text
from pvg_hf.core.integrity import RECIPE_FILE

ORIGIN = "origin.json"
"""File in the folder of a pulled run: where the run came from, and which of its code the user trusts."""

_OURS = "pvg_hf"


def list_code(values: Mapping[str, Any]) -> list[NamedCode]:
    """
    List code from outside of this package that the plain values of a recipe, or of a part of it, name.

    That of the whole game comes first, then that of single rounds.
    """
    rounds = values.get("rounds")
    parts = [("", values)]
    parts += [(f"rounds.{index}.", part) for index, part in rounds.items()] if isinstance(rounds, Mapping) else []
    keys = marked_keys(Recipe, NamesCode)
    return [named for prefix, part in parts for key in keys for named in _code_under(part, key, prefix)]


def _code_under(values: Any, key: str, prefix: str) -> Iterator[NamedCode]:
    for name in key.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    names = values if key == "attack.rewards" and isinstance(values, list) else [values]
    if all(isinstance(name, str) for name in names):
        for name in names:
            spec = name.rpartition("+")[2]  # `balanced+package.module:Name`
            if ":" in spec and spec.split(":")[0].split(".")[0] != _OURS:
                yield NamedCode.of(prefix + key, spec)
    elif values:
        yield NamedCode.of(prefix + key, values)


def admit_code(recipe: Recipe) -> list[str]:
    """
    Check that all code of a recipe may run; call this before running anything that it names.

    Returns: a line (key and value) for each module and command that playing or planning the recipe runs.
    Raises `UntrustedCodeError` if the recipe came with a pulled run and the user has not trusted its code.
    """
    code = list_code(recipe.to_dict())
    refuse_withheld(code)
    return [str(named) for named in code]


def guard_file(path: Path, recipe: Recipe, stated: Mapping[str, Any]) -> None:
    """
    Decide which code of the recipe in a file may run in this process, when the file is loaded.

    In the folder of a pulled run, the recipe is somebody else's: only what the user has trusted, or `stated` in
    overrides, may run. Elsewhere it is the user's own.
    """
    code, folder = list_code(recipe.to_dict()), origin_of(path)
    if folder is None:
        allow_code(code)
        return
    trusted = [*_read_trusted(folder), *list_code(stated)]
    allow_code(named for named in code if named in trusted)
    withhold_code(folder, [named for named in code if named not in trusted])


def trust_recipe(path: Path, recipe: Recipe, *, is_recorded: bool = True) -> list[str]:
    """
    Trust the code that the recipe in a pulled run's file names, now and later. A value that changes needs permission
    again.

    Args:
        is_recorded: Whether this process records the permission in the run's folder.
    Returns: a line for each newly trusted module or command; empty for the user's own recipe.
    Raises `ValueError` if the permission cannot be recorded.
    """
    folder = origin_of(path)
    if folder is None:
        return []
    trusted, code = _read_trusted(folder), list_code(recipe.to_dict())
    new = [named for named in code if named not in trusted]
    if is_recorded and new:
        try:
            _write(folder, {**_read(folder), "trusted": [vars(named) for named in (*trusted, *new)]})
        except OSError as err:
            raise ValueError(f"Cannot record what you trust in {folder / ORIGIN}: {err.strerror}.") from err
    allow_code(code)
    return [str(named) for named in new]


def write_origin(folder: Path, run: str, round_index: int | None = None, trusted: Sequence[NamedCode] = ()) -> None:
    """
    Mark a run's folder as that of `run` (`NAMESPACE/RUN`), pulled up to a round, with code that the user's recipe also
    names.
    """
    _write(folder, {"run": run, "round": round_index, "trusted": [vars(named) for named in trusted]})


def origin_of(path: Path) -> Path | None:
    """Return the pulled run's folder that contains a file; `None` if there is none."""
    parents = path.resolve().parents
    return next((folder for folder in parents if (folder / ORIGIN).exists() and (folder / RECIPE_FILE).exists()), None)


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


def _read_trusted(folder: Path) -> list[NamedCode]:
    entries = _read(folder).get("trusted")
    entries = entries if isinstance(entries, list) else []
    return [NamedCode(**entry) for entry in entries if isinstance(entry, dict) and entry.keys() == {"key", "value"}]


def _write(folder: Path, values: Mapping[str, Any]) -> None:
    write_text(folder / ORIGIN, json.dumps(values, indent=2) + "\n")
