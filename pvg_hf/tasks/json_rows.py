"""Reads JSON Lines files of users: one object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def iterate_json_rows(file: Path, advice: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """
    Read the objects of a JSON Lines file one by one. Empty lines are passed over.

    Args:
        file: The file, as for [`parse_json_row`]. Only `\\n` ends a line: JSON texts may hold other line breaks, such
            as U+2028.
    Yields: the file and the line in words, for messages, and the object.
    Raises `ValueError` if the file cannot be read, or a line is no object.
    """
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    place = f"`{file}`, line {number},"
                    try:
                        row = parse_json_row(line)
                    except ValueError as err:
                        raise ValueError(f"{place} {err}") from err
                    yield place, row
    except OSError as err:
        raise ValueError(" ".join([f"Cannot read `{file}`: {err}.", *([advice] if advice else [])])) from err


def parse_json_row(line: bytes) -> dict[str, Any]:
    """
    Parse a line of a JSON Lines file: an object in UTF-8, with or without a byte order mark.

    Raises `ValueError` if it is something else; the message continues a sentence about the line.
    """
    try:
        # Decoded first: json would guess UTF-16 for single lines of a file that is no UTF-8.
        row = json.loads(line.strip().decode("utf-8-sig"))
    except UnicodeDecodeError as err:
        raise ValueError(
            f"is not UTF-8 ({err.reason}, byte 0x{err.object[err.start]:02x}). Save the file as UTF-8."
        ) from err
    except ValueError as err:  # JSONDecodeError, or a number with more digits than Python reads
        raise ValueError(f"is not JSON ({err}).") from err
    except RecursionError as err:
        raise ValueError("has brackets that are nested too deeply.") from err
    if not isinstance(row, dict):
        raise ValueError(f"is {row!r:.80}; it must be an object.")
    return row
