"""Loads a recipe and reports all its mistakes together."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from pvg_hf.config.fields import fields_of, sections_of
from pvg_hf.config.recipe import RECIPE_ADAPTER, Recipe, merge, values_of_round
from pvg_hf.config.trust import guard_file
from pvg_hf.core.commands import pvg_command
from pvg_hf.core.extensions import cut_to_line, show_value, suggest
from pvg_hf.core.integrity import DamagedFileError

_YAML_NAMES = {bool: "true or false", int: "number", float: "number", date: "date", dict: "mapping", list: "list"}
_PATTERNS = {
    r"^[\w.-]+$": "must be made of letters, digits, `_`, `.` and `-`",
    r"^(auto|cpu|cuda)$": "must be `auto`, `cpu` or `cuda`",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "must be the name of an environment variable",
}


class RecipeError(ValueError):
    """An invalid recipe; the message lists every mistake."""


def refuse(mistakes: Collection[str]) -> None:
    """Raise a `RecipeError` that lists the mistakes in a recipe, if there are any."""
    if mistakes:
        raise RecipeError("\n- ".join([f"The recipe has {len(mistakes)} mistake(s):", *mistakes]))


def load_recipe(source: str | Path | Mapping[str, Any], overrides: Iterable[str] = ()) -> Recipe:
    """
    Load a recipe.

    Args:
        source (`str`, `Path` or `Mapping`):
            A YAML file, or its contents.
        overrides (`Iterable[str]`, *optional*):
            `section.key=value`, with the value in YAML; later ones win. Noise rates in an override replace those given
            in the other form (`noise.epsilon`, or `noise.rho0` and `noise.rho1`).

    Returns:
        `Recipe`: the checked recipe; fields without a value have their defaults. If the file came with a pulled run,
        nothing that it does beyond the run is done before [`~pvg_hf.config.trust.trust_recipe`].

    Raises:
        RecipeError: listing every unknown key (with the closest known one), wrong type and value out of range, also
            those under `rounds`; or if it is the recipe of a message game.
    """
    values = dict(source) if isinstance(source, Mapping) else read_yaml(Path(source))
    stated: dict[str, Any] = {}
    overrides = list(overrides)
    for override in map(parse_override, overrides):
        values, stated = merge(values, override), merge(stated, override)
    if "world" in values:
        raise RecipeError(
            "This recipe has a `world`, so that it is one of a message game: play it by "
            f"`{pvg_command('play', 'RECIPE' if isinstance(source, Mapping) else source, *overrides)}`."
        )
    refuse(list(_find_mistakes(values)))
    recipe = RECIPE_ADAPTER.validate_python(values)
    if not isinstance(source, Mapping):
        guard_file(Path(source), recipe, stated)
    return recipe


def dump_recipe(recipe: Recipe) -> str:
    """Serialise a recipe for a run's folder, with all keys."""
    return yaml.safe_dump(recipe.to_dict(), sort_keys=False)


def load_kept_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """
    Load the recipe in a run's folder, with overrides as for [`load_recipe`].

    Raises `DamagedFileError` if it is missing, cannot be read or was cut short: defaults would silently change it.
    """
    put_back = (
        "Restore the recipe that the run was started with (its report shows it), or give the new one another `name`."
    )
    try:
        text = path.read_text(encoding="utf-8")
        recipe = load_recipe(path)
    except FileNotFoundError as err:
        raise DamagedFileError(path, "is missing", put_back) from err
    except (OSError, UnicodeDecodeError, RecipeError) as err:
        raise DamagedFileError(path, f"cannot be read: {str(err).removesuffix('.')}", put_back) from err
    if "\nrounds:" not in f"\n{text}":  # the last key
        raise DamagedFileError(path, "was truncated: it has no `rounds`", put_back)
    return load_recipe(path, overrides) if overrides else recipe


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the values of a recipe. Raises `RecipeError` if the file cannot be read, or is not a mapping in YAML."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as err:
        raise RecipeError(f"Cannot read the recipe {cut_to_line(str(path))}: {err.strerror}.") from err
    except UnicodeDecodeError as err:
        line = err.object[: err.start].count(b"\n") + 1
        raise RecipeError(
            f"The recipe {path} is not UTF-8 text: line {line} has the byte 0x{err.object[err.start]:02x}. Save it as"
            " UTF-8 in your editor, or by `iconv -f ENCODING -t UTF-8`, where ENCODING is its encoding, e.g. LATIN1"
            " or UTF-16."
        ) from err
    values = _parse_yaml(text, f"The recipe {path}")
    if values is None:
        raise RecipeError(
            f"The recipe {path} is empty or has only comments. Write at least `name: NAME`, or `{{}}` for a game with"
            " all defaults."
        )
    if not isinstance(values, dict):
        raise RecipeError(f"The recipe {path} must consist of `key: value` lines; got a {type(values).__name__}.")
    return values


def _parse_yaml(text: str, what: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as err:
        raise RecipeError(f"{what} is not valid YAML: {err}") from err
    except ValueError as err:  # an impossible date, or a number with more digits than Python reads
        raise RecipeError(f"{what} has a value that cannot be read: {cut_to_line(str(err), 200)}") from err
    except RecursionError as err:
        raise RecipeError(f"{what} has brackets or sections that are nested too deeply.") from err


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, without what surprises in YAML 1.1; it also refuses tags and repeated keys in a mapping."""

    def scan_tag(self):
        tag = super().scan_tag()
        raise yaml.constructor.ConstructorError(
            None,
            None,
            "a recipe has no tags such as `!!binary`: write plain values, and text in quotes",
            tag.start_mark,
        )

    def resolve(self, kind, value, implicit):
        # YAML 1.1 reads 12:30 as 750, and 010 as 8.
        if kind is yaml.ScalarNode and implicit[0] and re.fullmatch(r"[-+]?(\d[\d_]*(:[\d.]+)+|0[\d_]+)", value):
            return self.DEFAULT_SCALAR_TAG
        return super().resolve(kind, value, implicit)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key, line = self.construct_object(key_node), key_node.start_mark.line + 1
            if key in lines:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the key `{cut_to_line(str(key))}` occurs twice, in lines {lines[key]} and {line}; keep one",
                )
            lines[key] = line
        return super().construct_mapping(node, deep)


def parse_override(text: str) -> dict[str, Any]:
    """Parse `section.key=value`, with the value in YAML, to nested mappings."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise RecipeError(
            f"Cannot read the override {show_value(text)}; write `section.key=value`, e.g. `prover.beta=0.1`."
        )
    nested: Any = _parse_yaml(value, f"The value of the override `{cut_to_line(path)}`")
    _check_as_written(value, nested, path)
    for key in reversed(path.split(".")):
        nested = {int(key) if key.isdigit() else key: nested}
    return nested


def _check_as_written(written: str, value: Any, path: str) -> None:
    """
    Check that YAML drops nothing of an override, as it does from ` #` on: nobody writes comments on a command line.
    """
    tokens = pairwise(yaml.scan(written, _Loader)) if "#" in written else ()
    has_comment = any("#" in written[one.end_mark.index : other.start_mark.index] for one, other in tokens)
    is_plain_text = isinstance(value, str) and written.lstrip()[:1] not in ("'", '"', "|", ">")
    if has_comment or (is_plain_text and value != written.strip()):
        raise RecipeError(
            f"YAML reads {show_value(value)} for `{cut_to_line(path)}`, where {show_value(written)} is written. Put"
            " the text in quotes within the shell's quotes, e.g. 'output_dir=\"my runs #1\"'."
        )


def _find_mistakes(values: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each mistake, first of the whole game and then of each round."""
    odd = list(_odd_numbers(values))
    # pydantic would report these numbers in a less helpful way, or overflow.
    if odd:
        yield from odd
        return
    of_game = _errors(values, Recipe)
    yield from _describe(of_game, Recipe)
    # A round inherits the mistakes of the whole game; report only those that its override states or causes.
    known = [(error["loc"], error["msg"]) for error in of_game]
    rounds = values.get("rounds")
    for round_index, override in rounds.items() if isinstance(rounds, dict) else ():
        errors = _errors(values_of_round(values, override), Recipe) if isinstance(override, dict) else ()
        own = [e for e in errors if _is_stated(e["loc"], override) or (e["loc"], e["msg"]) not in known]
        yield from _describe(own, Recipe, ["rounds", str(round_index)])


def _odd_numbers(values: Any, place: tuple[str, ...] = (), seen: set[int] | None = None) -> Iterator[str]:
    """Yield a line for each number that is not finite or exceeds 64 bits, also in mappings with arbitrary keys."""
    seen = set() if seen is None else seen
    if isinstance(values, (dict, list)):
        if id(values) in seen:  # YAML's aliases can share it many times
            return
        seen.add(id(values))
        items = values.items() if isinstance(values, dict) else enumerate(values)
        for key, value in items:
            yield from _odd_numbers(value, (*place, cut_to_line(str(key))), seen)
    elif isinstance(values, float) and not math.isfinite(values):
        yield f"`{'.'.join(place)}`: must be a finite number (got {values})."
    elif isinstance(values, int) and abs(values) >= 2**63:
        yield f"`{'.'.join(place)}`: must be a number that fits into 64 bits (got {show_value(values)})."


def list_mistakes_of(values: dict[str, Any], config: type) -> list[str]:
    """Return a line for each mistake in the values of a recipe of any kind, e.g. that of the message game."""
    return list(_odd_numbers(values)) or list(_describe(_errors(values, config), config))


def _errors(values: dict[str, Any], config: type) -> Sequence[Mapping[str, Any]]:
    try:
        _adapter(config).validate_python(values)
    except ValidationError as err:
        return err.errors()
    return []


@cache
def _adapter(config: type) -> TypeAdapter:
    return TypeAdapter(config)


def _is_stated(location: Iterable[int | str], values: Any) -> bool:
    """Whether `values` has a value at `location` that is not a section."""
    for part in location:
        if not isinstance(values, dict):
            return True
        if part not in values:
            return False
        values = values[part]
    return not isinstance(values, dict)


def _describe(errors: Iterable[Mapping[str, Any]], config: type, place: Sequence[str] = ()) -> Iterator[str]:
    """Format pydantic's errors as a line for each place, for a section nested at `place`."""
    reasons: dict[str, tuple[list[str], str]] = {}
    for error in errors:
        location = [cut_to_line(str(part)) for part in error["loc"]]
        if error["type"] in ("unexpected_keyword_argument", "extra_forbidden", "invalid_key"):
            *sections, key = location
            within = ".".join([*place, *sections])
            where = f" in section `{within}`" if within else ""
            yield f"Unknown key `{key}`{where}. {suggest(key, known_keys(sections, config))}"
            continue
        # A key with several types has an error for each, with a part such as `literal['auto']` of no use to a reader.
        location = [part for part in location if not re.search(r"[\[(]|^(str|int|float|bool|list)$", part)]
        found, _ = reasons.setdefault(".".join([*place, *location]) or "recipe", ([], _describe_input(error)))
        found.append(cut_to_line(_explain(error), 600).removeprefix("must be " if found else ""))
    yield from (f"`{key}`: {' or '.join(found)}{shown}." for key, (found, shown) in reasons.items())


def _describe_input(error: Mapping[str, Any]) -> str:
    value = error["input"]
    if isinstance(value, dict):
        return ""
    note = ""
    if error["type"].startswith(tuple(_KINDS)):
        note = {bool: ", as YAML reads `yes`, `on` and the like", str: ", a text"}.get(type(value), "")
    return f" (got {show_value(value)}{note})"


_KINDS = {"int_": "a whole number", "float_": "a number", "bool_": "true or false"}


def _explain(error: Mapping[str, Any]) -> str:
    """Explain an error, in plain words where pydantic would mention its classes or regular expressions."""
    kind, value = error["type"], error["input"]
    if kind == "string_type" and isinstance(value, tuple(_YAML_NAMES)):
        name = next(name for kind, name in _YAML_NAMES.items() if isinstance(value, kind))
        return (
            f"must be text, but YAML reads this as a {name}: quote it, e.g. `'off'` or `'007'` (on a command line"
            " within the shell's quotes: `\"name='007'\"`)"
        )
    if kind == "string_type" and value is None:
        return "must be text, but YAML reads `~`, `null` and nothing as no value: write it in quotes"
    if kind in ("dataclass_type", "dataclass_exact_type"):
        return "must be a section, i.e. a mapping of keys to values"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(error["ctx"]["pattern"], error["msg"])
    if kind.startswith(tuple(_KINDS)):
        return f"must be {_KINDS[kind.partition('_')[0] + '_']}"
    return error["msg"].removeprefix("Value error, ").removesuffix(".").replace("Input should be", "must be", 1)


def known_keys(sections: Iterable[str], config: type = Recipe) -> list[str]:
    """List the keys of a nested section. Places in a list, and names in a mapping, are passed over."""
    for name in sections:
        config = dict(sections_of(config)).get(name, config)
    return list(fields_of(config))
