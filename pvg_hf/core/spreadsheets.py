"""Tables for spreadsheets: escapes cells that they would execute as formulas, and reads what they save."""

import csv
import io
import math
from collections.abc import Collection

import pandas as pd

from pvg_hf.core.data_files import read_csv

_SIGNS = ("=", "+", "-", "@", "|", "%", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are full-width

_MARK = "'"  # spreadsheets read a cell that begins with it as text

_SKIPPED = " \t\r\n\v\f\0\u00a0\u2007\u202f\u3000\ufeff\u200b\u200e\u200f\u2060"  # blanks and invisible characters


def escape_cell(text: str) -> str:
    """
    Escape a text so that no spreadsheet reads it as a formula; `removeprefix("'")` returns the text.

    An apostrophe is prepended if the first visible character can begin a formula, or the first one is a tab, line
    break or apostrophe.
    """
    starts = text.lstrip(_SKIPPED).startswith(_SIGNS) or text.startswith(("\t", "\r", "\n"))
    return f"{_MARK}{text}" if starts or text.startswith(_MARK) else text


def to_csv(rows: pd.DataFrame) -> str:
    """Return a table as CSV with a heading; its texts are escaped."""
    return rows.map(lambda cell: escape_cell(cell) if isinstance(cell, str) else cell).to_csv(index=False)


def read_table(text: str, needed: Collection[str]) -> list[tuple[int, dict[str, str]]]:
    """
    Read the text of a CSV file that a spreadsheet saved, see [`~pvg_hf.core.data_files.read_csv`].

    Returns: the rows by column, each with its number in the spreadsheet (the heading is 1). A missing cell is empty.

    Raises `ValueError` if a column of `needed` is missing, or the file is no CSV.
    """
    table = []
    try:
        for number, row in read_csv(io.BytesIO(text.encode())):
            if isinstance(row, str):
                raise csv.Error(f"row {number} {row}")
            missing = [name for name in needed if name not in row]
            if missing:
                raise ValueError(f"lacks the column(s) {missing}; it has {[*row]}. Restore them.")
            table.append((number, {name: cell or "" for name, cell in row.items()}))
    except csv.Error as err:
        raise ValueError(f"cannot be read ({err}). Save it as CSV again.") from err
    return table


def read_decimal(text: str) -> float:
    """Read a number with a point, or with the comma of many spreadsheets; NaN if it is none."""
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return math.nan
