"""Output of commands: text, or with `--json` the same figures for a program."""

import json
import tempfile
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any


def check_output(path: Path | None, *, is_folder: bool = False) -> None:
    """
    Check, before the work, that a file or a folder can be written; `None` is standard output.

    Raises `ValueError` if it cannot.
    """
    if path is None:
        return
    if path.exists() and path.is_dir() != is_folder:
        raise ValueError(f"`{path}` is {'not ' if is_folder else ''}a folder; name another output.")
    above = next(place for place in ((path, *path.absolute().parents)[not is_folder :]) if place.exists())
    try:
        tempfile.TemporaryFile(dir=above).close()
    except OSError as err:
        raise ValueError(f"`{path}` cannot be written: {above}: {err.strerror}. Name another output.") from err


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
