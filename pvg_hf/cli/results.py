"""Output of commands: text, or with `--json` the same figures for a program."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any


def add_json(parser: ArgumentParser, what: str = "the figures") -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def as_asked(options: Namespace, text: str, values: Any) -> str:
    """Return the text, or with `--json` the values as JSON."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False, default=_plain) if options.json else text


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):  # a figure, whose module loads scipy
        return asdict(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"`{type(value).__name__}` has no form in JSON.")
