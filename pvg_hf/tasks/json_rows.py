"""Reads JSON Lines files of users: one object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def iterate_json_rows(file: Path, advice: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Read the objects of a JSON Lines file one by one. Empty lines are passed over.

    Args:
        file (`Path`):
            The file, in UTF-8. Only `\\n` ends a line: JSON texts may hold other line breaks, such as U+2028.
        advice (`str`, *optional*):
            Sentence that is added to the error if the file cannot be read.

    Yields:
        `tuple[str, dict]`: the file and the line in words, for messages, and the object.

    Raises:
        ValueError: if the file cannot be read, or a line is no object.
    """
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    place = f"`{file}`, line {number},"
                    yield place, _parse_row(line, place)
    except (OSError, UnicodeDecodeError) as err:
        raise ValueError(" ".join([f"Cannot read `{file}`: {err}.", *([advice] if advice else [])])) from err


def _parse_row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as err:
        raise ValueError(f"{place} is not JSON: {err}.") from err
    if not isinstance(row, dict):
        raise ValueError(f"{place} is {row!r:.80}; it must be an object.")
    return row
