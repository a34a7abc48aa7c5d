"""What solutions are imported from: files, folders and datasets on the Hub, row by row."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import load_dataset
from datasets.exceptions import DatasetsError

from pvg_hf.data.pool import iterate_pool
from pvg_hf.hub_access import find_outage
from pvg_hf.integrity import DamagedFileError

NumberedRow = tuple[str, Mapping[str, Any]]
"""Where a row stands (`file.jsonl, line 3`) and what it holds."""


def read_rows(
    source: str, *, config: str | None = None, split: str | None = None, revision: str | None = None
) -> Iterator[NumberedRow]:
    """
    Args:
        source (`str`), config (`str`, *optional*), split (`str`, *optional*), revision (`str`, *optional*):
            As [`~pvg_hf.data.imports.import_solutions`] takes them.

    Raises:
        ValueError: if the source cannot be read, or has no such config, split or revision.
    """
    path = Path(source)
    if path.suffix not in (".jsonl", ".parquet"):
        if path.is_file():
            raise ValueError(
                f"`{source}` is a file of a kind that is not read; an import reads `.jsonl` and `.parquet` files, folders "
                f"and datasets on the Hub. To convert it: `datasets.load_dataset({(path.suffix[1:] or 'text')!r}, "
                f"data_files={source!r}, split='train').to_json({str(path.with_suffix('.jsonl'))!r})`."
            )
        if path.is_dir():
            _refuse(f"The folder `{source}` has no revisions", revision=revision)
        return _read_dataset(source, config, split or "train", revision)
    _refuse(f"`{source}` is read as a file, all of it", config=config, split=split, revision=revision)
    if not path.is_file():
        raise ValueError(
            f"There is no file `{source}`. A source that ends in `.jsonl` or `.parquet` is read "
            "as a file; others are a folder or the id of a dataset on the Hub."
        )
    return _read_jsonl(path) if path.suffix == ".jsonl" else _numbered(source, _read_parquet(path))


def _refuse(reason: str, **choice: str | None) -> None:
    given = {name: value for name, value in choice.items() if value is not None}
    if given:
        raise ValueError(f"{reason}; leave out {given}.")


def _read_dataset(source: str, config: str | None, split: str, revision: str | None) -> Iterator[NumberedRow]:
    chosen = split if config is None else f"{config}/{split}"
    try:
        outage = None if Path(source).is_dir() else find_outage(source)
        if outage is not None:
            raise ValueError(f"{outage}.")
        rows = load_dataset(source, config, split=split, revision=revision, streaming=True)
        yield from _numbered(f"{source}[{chosen}]", rows)
    except (OSError, ValueError, DatasetsError, pa.ArrowException) as err:  # offline, no such repository, damaged, ...
        raise ValueError(
            f"Cannot read `{source}[{chosen}]`: {str(err).strip()}\nA source is a `.jsonl` or `.parquet` "
            "file, a folder with data files, or the id of a dataset on the Hub. Of the latter two, name the config if there "
            "are several, and the split if it is not `train`: `config` and `split`, in a recipe `bootstrap.import_config` "
            "and `bootstrap.import_split`."
        ) from err


def _read_parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        for batch in iterate_pool(path):
            yield from batch.to_pylist()
    except DamagedFileError as err:
        raise DamagedFileError(path, err.what, "Write it again, or import another file.") from err


def _numbered(name: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[NumberedRow]:
    for index, row in enumerate(rows):
        yield f"{name}, row {index}", row


def _read_jsonl(path: Path) -> Iterator[NumberedRow]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            place = f"{path}, line {number}"
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as err:  # JSONDecodeError or UnicodeDecodeError
                raise ValueError(f"{place}: not valid JSON ({err}).") from err
            except RecursionError as err:
                raise ValueError(f"{place}: its brackets are nested too deeply to be read.") from err
            if not isinstance(row, dict):
                raise ValueError(f"{place}: a line must hold one JSON object; got {line[:80]!r}.")
            yield place, row


def text_of(place: str, row: Mapping[str, Any], column: str) -> str:
    """
    Raises:
        ValueError: if the row has no such column, or something else than a text that can be written in it.
    """
    value = row.get(column)
    if not isinstance(value, str):
        found = f"is {value!r}" if column in row else f"is missing; the row has {list(row)}"
        raise ValueError(f"{place}: `{column}` must be a text, but it {found}.")
    try:
        value.encode()
    except UnicodeEncodeError as err:  # JSON can spell half of a surrogate pair
        raise ValueError(f"{place}: `{column}` cannot be written as UTF-8 ({err}).") from err
    return value
