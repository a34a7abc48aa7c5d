"""Reads a user's solutions from a file or the Hub."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def add_column(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="name of a column in the file, e.g. problem=question",
    )


def read_solutions(source: str, mapped: Sequence[str], columns: Sequence[str]) -> "pd.DataFrame":
    """
    Read solutions.

    Args:
        source: A .jsonl or .parquet file, a folder, or a dataset on the Hub.
        mapped: Names of columns as `OURS=THEIRS`.
        columns: Required columns: `problem`, `solution`, and `correct` if it is needed.
    Returns: `problem`, `solution`, `problem_id` (the problem itself if the source has none), `sample_index` among a
    problem's
        solutions and, if the source has it, the truth value `correct`.
    Raises `ValueError` for a row that lacks a column, and for a source without a solution.
    """
    names: dict[str, str] = {}
    for text in mapped:
        ours, is_mapped, theirs = text.partition("=")
        if not is_mapped or ours not in (*columns, "correct", "problem_id"):
            raise ValueError(
                f"`--column {text}`: write OURS=THEIRS; OURS is one of {', '.join((*columns, 'problem_id'))}."
            )
        names[ours] = theirs
    import pandas as pd

    from pvg_hf.data.imports import read_flag, read_rows, text_of

    found: list[dict[str, Any]] = []
    for place, row in read_rows(source):
        missing = [name for name in columns if names.get(name, name) not in row]
        if missing:
            raise ValueError(
                f"{place}: there is no column `{names.get(missing[0], missing[0])}`; the row has {list(row)}. Name the"
                f" one that is meant: `--column {missing[0]}=NAME`."
            )
        read: dict[str, Any] = {ours: text_of(place, row, names.get(ours, ours)) for ours in ("problem", "solution")}
        correct = read_flag(place, row, "correct", names)
        if correct is not None:
            read["correct"] = bool(correct)
        elif "correct" in columns:
            raise ValueError(f"{place}: `{names.get('correct', 'correct')}` must be 0 or 1, but it is missing.")
        read["problem_id"] = str(row.get(names.get("problem_id", "problem_id"), read["problem"]))
        found.append(read)
    if not found:
        raise ValueError(f"`{source}` has no solution.")
    rows = pd.DataFrame(found)
    if "correct" in rows and rows["correct"].isna().any():
        raise ValueError(f"`{source}` states for some of its solutions only whether they are correct.")
    return rows.assign(sample_index=rows.groupby("problem_id").cumcount())
