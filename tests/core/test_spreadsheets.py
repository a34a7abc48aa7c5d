"""Texts as cells of a table that spreadsheets open."""

import csv

import pandas as pd
import pytest

from pvg_hf.core.spreadsheets import escape_cell, read_table, to_csv

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
def test_cells_that_a_spreadsheet_would_execute_are_escaped(text):
    assert escape_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=b", "3 + 4", " text", "1", "'quoted'", "''", "'=1", "\u05d0=1", "#### 7"])
def test_every_text_is_restored(text):
    assert escape_cell(text).removeprefix("'") == text


def test_a_table_has_escaped_texts_and_plain_numbers():
    rows = pd.DataFrame({"name": ["=1+1", "text"], "value": [-1.5, 2.0]})
    assert to_csv(rows) == "name,value\n'=1+1,-1.5\ntext,2.0\n"


def test_long_cells_are_read_and_the_limit_is_restored():
    before = csv.field_size_limit()
    ((number, row),) = read_table("text\n" + "x" * 200_000, ["text"])
    assert (number, len(row["text"])) == (2, 200_000)
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("text", ["key,score\nk;1,0.5\n", "key;score\nk;1\n", "\ufeffkey;score\r\nk;0,5\r\n"])
def test_delimiters_and_byte_order_marks_of_spreadsheets_are_read(text):
    ((_, row),) = read_table(text, ["key", "score"])
    assert row["key"] == ("k;1" if "," in text.partition("\n")[0] else "k")
