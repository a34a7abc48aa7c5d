"""Options of the commands that read a user's data, and what they read."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pvg_hf.core.data_files import READABLE

if TYPE_CHECKING:
    import pandas as pd

    from pvg_hf.data.reading import Example

SOURCE = f"{READABLE}; a folder of these; or a dataset on the Hub".replace("%", "%%")


def add_data_options(parser: ArgumentParser) -> None:
    """Add the options that say which rows and columns of a source are read."""
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="name of a column in the data, e.g. problem=question, or a path, e.g. solution=outputs.*.text",
    )
    parser.add_argument("--config", help="config of a dataset with several")
    parser.add_argument("--split", help="split of a folder or dataset (default: its only one, else train)")
    parser.add_argument("--revision", help="branch, tag or commit of a dataset on the Hub")


def chosen_rows(options: Namespace) -> dict[str, Any]:
    """Return the options of [`add_data_options`] that choose rows, as arguments of `read_rows`."""
    return {name: getattr(options, name) for name in ("config", "split", "revision")}


def read_names(mapped: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """
    Parse the values of `--column`, `OURS=THEIRS` with one of the known names first.

    Raises `ValueError` for another form, name or bound.
    """
    names: dict[str, str] = {}
    for text in mapped:
        ours, is_mapped, theirs = text.partition("=")
        if not is_mapped or ours not in known:
            raise ValueError(f"`--column {text}`: write OURS=THEIRS; OURS is one of {', '.join(known)}.")
        names[ours] = theirs
    return names


def read_source(source: str, options: Namespace, **rows: str | None) -> "list[Example]":
    """Read the problems and solutions, or pairs, of a source. `rows` replaces options that choose rows."""
    from pvg_hf.core.data_files import read_rows  # late: loading `datasets` takes a second
    from pvg_hf.data.reading import COLUMNS, read_examples

    names = read_names(options.column, COLUMNS)
    return list(read_examples(read_rows(source, **{**chosen_rows(options), **rows}), names))


def read_solutions(options: Namespace, *, needs_correct: bool) -> "pd.DataFrame":
    """Read the solutions of `options.file` as [`~pvg_hf.data.reading.solutions_frame`] returns them."""
    examples = read_source(options.file, options)
    from pvg_hf.data.reading import solutions_frame

    return solutions_frame(options.file, examples, needs_correct=needs_correct)
