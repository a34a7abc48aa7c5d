"""Reads a recipe and reports all its mistakes together."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from pvg_hf.config.recipe import RECIPE_ADAPTER, Recipe, merge


class RecipeError(ValueError):
    """A recipe that cannot be played; the message lists every mistake."""


def load_recipe(source: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """
    Read a recipe.

    Args:
        source (`str`, `Path` or `Mapping`):
            A YAML file, or its contents.
        overrides (`Iterable[str]`, *optional*):
            `section.key=value`, the value in YAML; a later one wins.

    Returns:
        `Recipe`: checked; fields that the source does not state have their defaults.

    Raises:
        RecipeError: naming every unknown key (with the closest known one), wrong type and value out of range.
    """
    values = dict(source) if isinstance(source, Mapping) else _read_yaml(Path(source))
    for override in overrides:
        values = merge(values, _parse_override(override))
    try:
        return RECIPE_ADAPTER.validate_python(values)
    except ValidationError as err:
        mistakes = [_describe(error) for error in err.errors()]
        raise RecipeError("\n".join([f"The recipe has {len(mistakes)} mistake(s):", *mistakes])) from err


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise RecipeError(f"Cannot read the recipe {path}: {err.strerror}.") from err
    except yaml.YAMLError as err:
        raise RecipeError(f"{path} is not valid YAML: {err}") from err
    if not isinstance(values or {}, dict):
        raise RecipeError(f"{path} must hold `key: value` lines; got a {type(values).__name__}.")
    return values or {}


def _parse_override(text: str) -> dict[str, Any]:
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise RecipeError(f"Cannot read the override {text!r}; write `section.key=value`, e.g. `prover.beta=0.1`.")
    try:
        nested: Any = yaml.safe_load(value)
    except yaml.YAMLError as err:
        raise RecipeError(f"The value of the override {text!r} is not valid YAML: {err}") from err
    for key in reversed(path.split(".")):
        nested = {int(key) if key.isdigit() else key: nested}
    return nested


def _describe(error: Mapping[str, Any]) -> str:
    """One line for one mistake of pydantic's list."""
    location = [str(part) for part in error["loc"]]
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"- {_describe_unknown_key(location)}"
    message = error["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(error["input"], dict) else f" (got {error['input']!r})"
    return f"- `{'.'.join(location) or 'recipe'}`: {message}{shown}."


def _describe_unknown_key(location: list[str]) -> str:
    *sections, key = location
    known = known_keys(sections)
    where = f" in section `{'.'.join(sections)}`" if sections else ""
    closest = difflib.get_close_matches(key, known, n=1)
    hint = f"Did you mean `{closest[0]}`?" if closest else f"Known keys: {', '.join(known)}."
    return f"Unknown key `{key}`{where}. {hint}"


def known_keys(sections: list[str]) -> list[str]:
    """The keys of a (nested) section, from the JSON schema."""
    schema = RECIPE_ADAPTER.json_schema()
    node: Mapping[str, Any] = schema
    for name in sections:
        node = node.get("properties", {}).get(name, {})
        options = [node, *node.get("anyOf", [])]
        reference = next((option["$ref"] for option in options if "$ref" in option), None)
        if reference is not None:
            node = schema["$defs"][reference.rsplit("/", 1)[-1]]
    return list(node.get("properties", {}))
