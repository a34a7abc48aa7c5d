"""Generates the key reference and the JSON Schema of recipes from their dataclasses."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import TypeAdapter

from pvg_hf.config.fields import default_of, marked_arguments
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.config.recipe import RECIPE_ADAPTER, Recipe

BEGIN = "<!-- begin of the key reference; `make reference` writes it from pvg_hf/config -->"
END = "<!-- end of the key reference -->"
_TYPES = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false"}
_BOUNDS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "multipleOf": "multiple of",
}


@dataclass(frozen=True)
class Part:
    """
    A table of the reference.

    Args:
        title (`str`):
            Heading, in Markdown.
        config (`type`):
            The dataclass.
        inherited (`frozenset[str]`):
            Names of fields that another table lists.
    """

    title: str
    config: type
    inherited: frozenset[str] = frozenset()


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a recipe, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **RECIPE_ADAPTER.json_schema(),
        "title": "A recipe of pvg_hf",
    }


def schema_text() -> str:
    """Return [`recipe_schema`] as the text of its file."""
    return json.dumps(recipe_schema(), indent=2) + "\n"


def write_between_markers(document: str, reference: str | None = None) -> str:
    """
    Replace the text between the markers of a document by a reference, by default the current one of recipes.

    Raises:
        ValueError: if the document lacks the markers.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The document must have the lines `{BEGIN}` and `{END}`, in this order.")
    return f"{before}{BEGIN}\n\n{reference_markdown() if reference is None else reference}\n{END}{after}"


def reference_files(repository: Path) -> dict[Path, str]:
    """Return the generated files with their texts."""
    recipes = repository / "docs" / "recipes.md"
    return {
        recipes: write_between_markers(recipes.read_text(encoding="utf-8")),
        repository / "docs" / "recipe.schema.json": schema_text(),
    }


def reference_markdown() -> str:
    """Return a table for each section, in the order of a recipe."""
    return "\n".join(line for part in _parts() for line in _table(part))


def section_reference_markdown(recipe: type) -> str:
    """Return a table for each section of a recipe of another kind."""
    parts = [Part("Top level", recipe), *(Part(f"`{name}`", config) for name, config in _sections(recipe))]
    return "\n".join(line for part in parts for line in _table(part))


def _parts() -> Iterator[Part]:
    yield Part("Top level", Recipe)
    of_players = frozenset(field.name for field in fields(PlayerConfig))
    for name, config in _sections(Recipe):
        # Keys that both players share get one table, before those of each player.
        if not issubclass(config, PlayerConfig):
            yield from _section_parts([name], config, set())
            continue
        if name == "verifier":
            yield Part("`verifier` and `prover`: keys of both", PlayerConfig)
            for inner, inner_config in _sections(PlayerConfig):
                yield Part(f"`verifier.{inner}` and `prover.{inner}`", inner_config)
        yield Part(f"`{name}`: keys that only it has", config, of_players)
        for inner, inner_config in _sections(config):
            if inner not in of_players:
                yield Part(f"`{name}.{inner}`", inner_config)


def _section_parts(paths: list[str], config: type, seen: set[type]) -> Iterator[Part]:
    """
    Yield a section that may occur in several places, and its nested sections; each has one table, at its first place.
    """
    seen.add(config)
    yield Part(", ".join(f"`{path}`" for path in paths), config)
    places: dict[type, list[str]] = {}
    for path in paths:
        for name, inner in _sections(config):
            places.setdefault(inner, []).append(f"{path}.{name}")
    for inner, inner_paths in places.items():
        if inner not in seen:
            yield from _section_parts(inner_paths, inner, seen)


def _sections(config: type) -> Iterator[tuple[str, type]]:
    """Yield the fields of a dataclass that are dataclasses themselves, including optional ones."""
    for field in fields(config):
        options = [field.type, *get_args(field.type)]
        found = [option for option in options if isinstance(option, type) and is_dataclass(option)]
        if found:
            yield field.name, found[0]


def _table(part: Part) -> Iterator[str]:
    schema = TypeAdapter(part.config).json_schema()
    yield from (f"### {part.title}", "", schema["description"], "")
    rows = []
    for name, node in schema["properties"].items():
        if name not in part.inherited and not _is_plain_section(node):
            meaning = f"{node['description']}{_describe_arguments(part.config, name)}"
            cells = (f"`{name}`", _describe_value(node), _describe_default(default_of(part.config, name)), meaning)
            rows.append(f"| {' | '.join(_escaped(cell) for cell in cells)} |")
    if rows:
        yield from ("| Key | Value | Default | Meaning |", "| --- | --- | --- | --- |", *rows, "")


def _describe_arguments(config: type, key: str) -> str:
    """Name the trainer arguments that a key sets, unless there is one with the key's own name."""
    arguments = dict.fromkeys(
        name for player in ("verifier", "prover") for name in marked_arguments(config, key, player)
    )
    if key in arguments or not arguments:
        return ""
    return f" Trainer argument{'s' * (len(arguments) > 1)}: {', '.join(f'`{name}`' for name in arguments)}."


def _is_plain_section(node: Mapping[str, Any]) -> bool:
    """Whether a section is always present, so that it has its own table and needs no row in its parent's."""
    return "$ref" in node


def _describe_value(node: Mapping[str, Any]) -> str:
    if "anyOf" in node:
        return " or ".join(_describe_value(option) for option in node["anyOf"] if option.get("type") != "null")
    if "$ref" in node:
        return "section"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if node["type"] == "array":
        return f"list of {_describe_value(node['items'])}"
    if node["type"] == "object":
        return "mapping"
    bounds = [f"{sign} {node[key]:g}" for key, sign in _BOUNDS.items() if key in node]
    return f"{_TYPES[node['type']]} {', '.join(bounds)}".rstrip()


def _describe_default(default: object) -> str:
    """Format a default as YAML in one line."""
    if default is None:
        return "none"
    if is_dataclass(default):
        return "`{}`"
    if isinstance(default, str) and "\n" in default:
        return f"`{json.dumps(default)}`"
    return f"`{yaml.safe_dump(default, default_flow_style=True).splitlines()[0]}`"


def _escaped(cell: str) -> str:
    """Escape bars, which would end the cell."""
    return cell.replace("|", "\\|")
