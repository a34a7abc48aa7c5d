"""
Write what is generated: the key references and the catalogue of figures in docs/, docs/recipe.schema.json, the
requirements of a Space (space_app/requirements.txt), and the project's address in README.md, setup.cfg and
CITATION.cff.

    python -m tools.write_reference
    python -m tools.write_reference --check    # changes nothing; exit status 1 if a file is out of date
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from pvg_hf.config.fields import MAY_CHANGE, MayChange, default_of, marked_arguments, marked_keys, sections_of
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.config.recipe import RECIPE_ADAPTER, Recipe
from pvg_hf.core.project import PROJECT_URL
from pvg_hf.evaluation.catalogue import CATALOGUE
from pvg_hf.experimental.messages.recipe import MessageRecipe

REPOSITORY = Path(__file__).parent.parent
# PyPI's torch brings gigabytes of CUDA, which a CPU Space cannot use.
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
BEGIN = "<!-- begin of the key reference; `make reference` writes it from pvg_hf/config -->"
END = "<!-- end of the key reference -->"
CATALOGUE_BEGIN = "<!-- begin of the catalogue; `make reference` writes it from pvg_hf/evaluation/catalogue.py -->"
CATALOGUE_END = "<!-- end of the catalogue -->"
ADDRESSES = {"README.md": r"git clone ", "setup.cfg": r"^url = ", "CITATION.cff": r"^repository-code: "}
"""Files that repeat `PROJECT_URL`, with what stands before it."""
_CHANGES = " May change in a started run."
_TYPES = {"integer": "integer", "number": "number", "string": "text", "boolean": "boolean"}
_BOUNDS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "multipleOf": "multiple of",
}

GROUPS = {
    "prover": "Figures of the provers, on test problems",
    "training": "Figures of the prover's training",
    "decisions": "Figures of the verifier on its own prover's test solutions",
    "answers": "Figures of the answers that the verifier chooses, on test problems",
    "heldout": "Figures of the verifier on held-out problems",
    "pools": "Figures of every verifier on every prover's test solutions",
    "acceptance": "Figures of what the verifier accepts, at 95 % completeness",
    "evaluations": "Figures of the evaluations that a verifier writes (`kind: score`)",
}
"""Titles of the groups of figures, in the order of the documentation."""


@dataclass(frozen=True)
class Part:
    """
    A table of the reference.

    Args:
        title: Heading, in Markdown.
        config: The dataclass.
        inherited: Names of fields that another table lists.
        may_change: Whether all of it may change in a started run.
    """

    title: str
    config: type
    inherited: frozenset[str] = frozenset()
    may_change: bool = False


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a recipe, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **RECIPE_ADAPTER.json_schema(),
        "title": "A recipe of pvg_hf",
    }


def write_between_markers(document: str, reference: str, *, begin: str = BEGIN, end: str = END) -> str:
    """
    Replace the text between the markers `begin` and `end` of a document by a reference.

    Raises `ValueError` if the document lacks the markers.
    """
    before, has_begin, rest = document.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"The document must have the lines `{begin}` and `{end}`, in this order.")
    return f"{before}{begin}\n\n{reference}\n{end}{after}"


def reference_files(repository: Path) -> dict[Path, str]:
    """Return the generated files with their texts."""
    docs = repository / "docs"
    recipes, messages = docs / "reference" / "recipes.md", docs / "reference" / "message-game-keys.md"
    evaluation = docs / "reference" / "figures.md"
    return {
        recipes: write_between_markers(recipes.read_text(encoding="utf-8"), reference_markdown()),
        messages: write_between_markers(messages.read_text(encoding="utf-8"), message_reference_markdown()),
        evaluation: write_between_markers(
            evaluation.read_text(encoding="utf-8"), catalogue_markdown(), begin=CATALOGUE_BEGIN, end=CATALOGUE_END
        ),
        docs / "recipe.schema.json": json.dumps(recipe_schema(), indent=2) + "\n",
        repository / "space_app" / "requirements.txt": space_requirements(repository),
        **{
            repository / name: write_address((repository / name).read_text(encoding="utf-8"), before)
            for name, before in ADDRESSES.items()
        },
    }


def space_requirements(repository: Path) -> str:
    """
    Tested versions of what the package and the app require. Torch is the CPU build; the Space itself provides gradio.
    """
    setup = ConfigParser()
    setup.read(repository / "setup.cfg", encoding="utf-8")
    ranges = setup["options"]["install_requires"].split() + setup["options.extras_require"]["app"].split()
    pins = dict(
        line.split("==") for line in (repository / "constraints.txt").read_text("utf-8").splitlines() if "==" in line
    )
    tested = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    names = [re.split("[<>=]", requirement)[0] for requirement in ranges]
    pinned = [f"{name}=={tested[name.lower().replace('_', '-')]}" for name in sorted(names) if name != "gradio"]
    return "\n".join([f"--extra-index-url {CPU_WHEELS}", *pinned, ""])


def write_address(document: str, before: str) -> str:
    """
    Replace the word after the pattern `before` by the project's address.

    Raises `ValueError` if the document has no such place.
    """
    written, num_places = re.subn(rf"({before})\S+", rf"\g<1>{PROJECT_URL}", document, flags=re.MULTILINE)
    if num_places == 0:
        raise ValueError(f"The document must have the project's address after `{before}`.")
    return written


def catalogue_markdown() -> str:
    """Return the catalogue as Markdown, with a table for each group."""
    lines = []
    better = {True: "higher", False: "lower", None: ""}
    for group, title in GROUPS.items():
        lines += [
            f"### {title}",
            "",
            "| figure, after `round/` | heading | meaning | better |",
            "| --- | --- | --- | --- |",
        ]
        for kind in CATALOGUE:
            if kind.of == group:
                key = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), kind.key)
                heading = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), kind.heading)
                base = f", `base_{key}`" if kind.has_base else ""
                lines.append(f"| `{key}`{base} | {heading} | {kind.meaning} | {better[kind.higher_is_better]} |")
        lines.append("")
    return "\n".join(lines)


def reference_markdown() -> str:
    """Return a table for each section, in the order of a recipe."""
    return "\n".join(line for part in _parts() for line in _table(part))


def message_reference_markdown() -> str:
    """Return a table for each section of a message game's recipe."""
    parts = [Part("Top level", MessageRecipe)]
    for name, config in sections_of(MessageRecipe):
        parts.append(Part(f"`{name}`", config))
    return "\n".join(line for part in parts for line in _table(part))


def _parts() -> Iterator[Part]:
    yield Part("Top level", Recipe)
    of_players = frozenset(field.name for field in fields(PlayerConfig))
    for name, config in sections_of(Recipe):
        # Keys that both players share get one table, before those of each player.
        if not issubclass(config, PlayerConfig):
            yield from _section_parts([name], config, set(), may_change=name in marked_keys(Recipe, MayChange))
            continue
        if name == "verifier":
            yield Part("`verifier` and `prover`: keys of both", PlayerConfig)
            for inner, inner_config in sections_of(PlayerConfig):
                yield Part(f"`verifier.{inner}` and `prover.{inner}`", inner_config)
        yield Part(f"`{name}`: keys that only it has", config, of_players)
        for inner, inner_config in sections_of(config):
            if inner not in of_players:
                yield Part(f"`{name}.{inner}`", inner_config)


def _section_parts(paths: list[str], config: type, seen: set[type], *, may_change: bool) -> Iterator[Part]:
    """
    Yield a section that may occur in several places, and its nested sections; each has one table, at its first place.
    """
    seen.add(config)
    yield Part(", ".join(f"`{path}`" for path in paths), config, may_change=may_change)
    places: dict[type, list[str]] = {}
    for path in paths:
        for name, inner in sections_of(config):
            places.setdefault(inner, []).append(f"{path}.{name}")
    for inner, inner_paths in places.items():
        if inner not in seen:
            yield from _section_parts(inner_paths, inner, seen, may_change=may_change)


def _table(part: Part) -> Iterator[str]:
    schema = TypeAdapter(part.config).json_schema()
    yield from (f"### {part.title}", "", f"{schema['description']}{_CHANGES * part.may_change}", "")
    rows = []
    for name, node in schema["properties"].items():
        if name not in part.inherited and not _is_plain_section(node):
            changes = _CHANGES * (MAY_CHANGE in node and not part.may_change)
            meaning = f"{node['description']}{_describe_arguments(part.config, name)}{changes}"
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only list the files that are out of date")
    arguments = parser.parse_args()

    outdated = {
        path: text
        for path, text in reference_files(REPOSITORY).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in outdated.items():
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        print(f"{'out of date' if arguments.check else 'written'}: {path.relative_to(REPOSITORY)}")
    return 1 if arguments.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
