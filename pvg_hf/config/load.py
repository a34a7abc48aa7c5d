"""Reads a recipe and reports all its mistakes together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pvg_hf.config.recipe import RECIPE_ADAPTER, Recipe, merge, values_of_round
from pvg_hf.config.trust import guard_file
from pvg_hf.suggestions import suggest


class RecipeError(ValueError):
    """A recipe that cannot be played; the message lists every mistake."""


def load_recipe(source: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """
    Read a recipe.

    Args:
        source (`str`, `Path` or `Mapping`):
            A YAML file, or its contents.
        overrides (`Iterable[str]`, *optional*):
            `section.key=value`, the value in YAML; a later one wins. Rates of noise that it states take the place of those
            stated in the other way (`noise.epsilon`, or `noise.rho0` and `noise.rho1`).

    Returns:
        `Recipe`: checked; fields that the source does not state have their defaults. Code that it names is not run before
        [`~pvg_hf.config.trust.trust_recipe`] where the file came with a pulled run.

    Raises:
        RecipeError: naming every unknown key (with the closest known one), wrong type and value out of range, those
            under `rounds` included.
    """
    values = dict(source) if isinstance(source, Mapping) else _read_yaml(Path(source))
    stated: dict[str, Any] = {}
    for override in map(_parse_override, overrides):
        values, stated = merge(values, override), merge(stated, override)
    mistakes = list(_find_mistakes(values))
    if mistakes:
        raise RecipeError("\n".join([f"The recipe has {len(mistakes)} mistake(s):", *mistakes]))
    recipe = RECIPE_ADAPTER.validate_python(values)
    if not isinstance(source, Mapping):
        guard_file(Path(source), recipe, stated)
    return recipe


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


def _find_mistakes(values: dict[str, Any]) -> Iterator[str]:
    """A line for each mistake, of the whole game and then of each round."""
    of_game = _errors(values)
    yield from (_describe(error) for error in of_game)
    rounds = values.get("rounds")
    for round_index, override in rounds.items() if isinstance(rounds, dict) else ():
        if isinstance(override, dict):
            yield from _mistakes_of_round(values, of_game, round_index, override)


def _mistakes_of_round(
    values: dict[str, Any], of_game: list[ErrorDetails], round_index: object, override: dict[str, Any]
) -> Iterator[str]:
    """What is wrong in a round, but for what it takes over from the whole game."""
    known = [(error["loc"], error["msg"]) for error in of_game]
    for error in _errors(values_of_round(values, override)):
        if _is_stated(error["loc"], override) or (error["loc"], error["msg"]) not in known:
            yield _describe(error, ["rounds", str(round_index)])


def _errors(values: dict[str, Any]) -> list[ErrorDetails]:
    try:
        RECIPE_ADAPTER.validate_python(values)
    except ValidationError as err:
        return err.errors()
    return []


def _is_stated(location: Iterable[int | str], values: Any) -> bool:
    """Whether the value at `location` stands in `values`, and is not a section of several."""
    for part in location:
        if not isinstance(values, dict):
            return True
        if part not in values:
            return False
        values = values[part]
    return not isinstance(values, dict)


def _describe(error: ErrorDetails, place: Sequence[str] = ()) -> str:
    """One line for one mistake of pydantic's list, in a recipe that stands at `place`."""
    location = [str(part) for part in error["loc"]]
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"- {_describe_unknown_key(location, place)}"
    message = error["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(error["input"], dict) else f" (got {error['input']!r})"
    return f"- `{'.'.join([*place, *location]) or 'recipe'}`: {message}{shown}."


def _describe_unknown_key(location: list[str], place: Sequence[str]) -> str:
    *sections, key = location
    within = ".".join([*place, *sections])
    where = f" in section `{within}`" if within else ""
    return f"Unknown key `{key}`{where}. {suggest(key, known_keys(sections))}"


def known_keys(sections: list[str]) -> list[str]:
    """The keys of a (nested) section, from the JSON schema."""
    schema = RECIPE_ADAPTER.json_schema()
    node: Mapping[str, Any] = schema
    for name in sections:
        node = _named(node, name)
        options = [node, *node.get("anyOf", [])]
        reference = next((option["$ref"] for option in options if "$ref" in option), None)
        if reference is not None:
            node = schema["$defs"][reference.rsplit("/", 1)[-1]]
    return list(node.get("properties", {}))


def _named(node: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What stands under a name in a section, or in a mapping of sections."""
    of_mapping = node.get("additionalProperties")
    return node.get("properties", {}).get(name, of_mapping if isinstance(of_mapping, dict) else {})
