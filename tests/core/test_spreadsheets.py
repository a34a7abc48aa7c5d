"""Texts as cells of a table that spreadsheets open."""

import csv
import io

import pytest

from pvg_hf.core.spreadsheets import escape_cell, reading_long_cells, unescape_cell

EXECUTED = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1+1",
    "\n=1+1",
    " =1+1",
    "  \t =1",
    "\ufeff=1+1",
    "\uff1d1+1",
    "\uff0b1",
]
EXECUTED += ["\uff0d1", "\uff20SUM(A1)", "\u200b=1", "\u00a0=1", "\ttext", "\rtext", "\ntext", "|x", "%x"]


@pytest.mark.parametrize("text", EXECUTED)
def test_what_would_be_executed_is_text(text):
    assert escape_cell(text) == f"'{text}"
    assert unescape_cell(escape_cell(text)) == text


@pytest.mark.parametrize("text", ["", "a=b", "3 + 4", " text", "1", "'quoted'", "''", "'=1", "\u05d0=1", "#### 7"])
def test_every_text_comes_back(text):
    assert unescape_cell(escape_cell(text)) == text
    assert escape_cell(text).removeprefix("'") in (text, text.removeprefix("'"))


def test_long_cells_are_read_and_the_limit_is_put_back():
    before = csv.field_size_limit()
    with reading_long_cells():
        assert [len(row[0]) for row in csv.reader(io.StringIO("x" * 200_000))] == [200_000]
    assert csv.field_size_limit() == before
