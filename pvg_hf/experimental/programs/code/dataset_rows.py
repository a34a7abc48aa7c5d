"""Reads the rows of a dataset from JSON Lines or Parquet files, local or from the Hub."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import load_dataset
from datasets.exceptions import DatasetsError
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError
from pyarrow import parquet

from pvg_hf.core.hub_access import check_dataset_access
from pvg_hf.tasks.json_rows import iterate_json_rows

Row = dict[str, Any]

_ROWS_PER_BATCH = 16  # a row of tests can have megabytes


def find_files(folder: str, split: str) -> list[Path]:
    """
    Return the files of a split in a folder: `SPLIT*.jsonl`, or else `SPLIT*.parquet`, or the latter in its folder `data`.

    The list is empty if there is none.

    Raises:
        ValueError: if the folder does not exist.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"`path` is `{folder}`, which is not a folder.")
    for pattern in (f"{split}*.jsonl", f"{split}*.parquet", f"data/{split}*.parquet"):
        files = sorted(root.glob(pattern))
        if files:
            return files
    return []


def read_files(files: list[Path]) -> Iterator[Row]:
    """
    Read the rows of JSON Lines and Parquet files, one after the other.

    Raises:
        ValueError: with the file and the line, if one cannot be read or holds something else than objects.
    """
    for file in files:
        yield from _read_parquet(file) if file.suffix == ".parquet" else (row for _, row in iterate_json_rows(file))


def _read_parquet(file: Path) -> Iterator[Row]:
    try:
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_ROWS_PER_BATCH):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as err:
        raise ValueError(f"Cannot read `{file}`: {err}.") from err


def read_hub(hub_id: str, split: str, config: str | None = None) -> Iterator[Row]:
    """
    Read the rows of a split of a dataset on the Hub: of the file `SPLIT.jsonl` if the repository has one, otherwise as
    `datasets` loads it.

    Raises:
        ValueError: if it cannot be loaded.
    """
    try:
        check_dataset_access(hub_id)
        if config is None:
            try:
                yield from read_files([Path(hf_hub_download(hub_id, f"{split}.jsonl", repo_type="dataset"))])
                return
            except EntryNotFoundError:
                pass
        yield from load_dataset(hub_id, config, split=split)
    except (OSError, ValueError, DatasetsError) as err:  # offline, no such repository, config or split
        raise ValueError(
            f"Cannot load split `{split}` of the dataset `{hub_id}`: {str(err).rstrip('.')}. To work without the Hub, set `path` "
            "(in a recipe `task.path`) to a folder with its files."
        ) from err
