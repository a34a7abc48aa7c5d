"""Texts as cells of a table that people open in a spreadsheet, which would execute some of them."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNS = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are full-width

_MARK = "'"  # what spreadsheets know as the beginning of a text

_SKIPPED = " \t\r\n\v\f\0\u00a0\u2007\u202f\u3000\ufeff\u200b\u200e\u200f\u2060"  # blanks and signs that are not seen


def escape_cell(text: str) -> str:
    """
    A text as a cell that no spreadsheet computes: behind an apostrophe where its first visible character is a sign of
    formulas, where it begins with a tab or a line break, and where it begins with an apostrophe itself, so that
    [`unescape_cell`] gives the same text back.
    """
    starts = text.lstrip(_SKIPPED).startswith(_SIGNS) or text.startswith(("\t", "\r", "\n"))
    return f"{_MARK}{text}" if starts or text.startswith(_MARK) else text


def unescape_cell(cell: str) -> str:
    """The text that [`escape_cell`] was given."""
    return cell.removeprefix(_MARK)


@contextmanager
def reading_long_cells() -> Iterator[None]:
    """Let Python's reader of CSV take cells of any length: a proof with all that was said of it is longer than its 131,072."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
