"""Escapes texts in CSV cells that a spreadsheet would otherwise execute as formulas."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNS = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are full-width

_MARK = "'"  # spreadsheets read a cell that begins with it as text

_SKIPPED = " \t\r\n\v\f\0\u00a0\u2007\u202f\u3000\ufeff\u200b\u200e\u200f\u2060"  # blanks and invisible characters


def escape_cell(text: str) -> str:
    """
    Escape a text so that no spreadsheet reads it as a formula; [`unescape_cell`] undoes this.

    An apostrophe is prepended if the first visible character can begin a formula, or if the text begins with a tab, a line
    break or an apostrophe.
    """
    starts = text.lstrip(_SKIPPED).startswith(_SIGNS) or text.startswith(("\t", "\r", "\n"))
    return f"{_MARK}{text}" if starts or text.startswith(_MARK) else text


def unescape_cell(cell: str) -> str:
    """Undo [`escape_cell`]."""
    return cell.removeprefix(_MARK)


@contextmanager
def reading_long_cells() -> Iterator[None]:
    """Lift Python's limit of 131,072 characters for a CSV cell, which a proof with its analyses can exceed."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
