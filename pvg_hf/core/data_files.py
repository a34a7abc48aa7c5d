"""
Reads the rows of people's data: files of several kinds, folders of them, and datasets on the Hub.

Every row comes with its place in words (`answers.jsonl, line 3`), for messages. Rows are streamed; only a JSON
document (a list, or an object over several lines) and a compressed Parquet file are held in memory whole.
"""

import bz2
import csv
import gzip
import io
import json
import logging
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from glob import escape
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pvg_hf.core.extensions import cut_to_line
from pvg_hf.core.hub_access import find_dataset_refusal

logger = logging.getLogger(__name__)

Row = dict[str, Any]
PlacedRow = tuple[str, Row]
_Found = tuple[str, Row | str]  # a place in a file, and its row or why it cannot be read

READABLE = "a .jsonl, .ndjson, .json, .csv, .tsv or .parquet file, or one of these as .gz, .bz2, .xz or .zst"

MAX_LINE = 2**26  # bytes
MAX_DOCUMENT = 2**29  # bytes of a JSON document, which needs about ten times as much memory
ROWS_PER_BATCH = 256  # of a Parquet file; a row may have megabytes

FEW_UNREADABLE = 3
SHARE_UNREADABLE = 0.01
"""A file with more unreadable lines than both of these is refused; fewer are skipped, with a warning."""
MAX_SHARE_UNREADABLE = 0.25  # of a short file; one is skipped all the same, as a crash may have cut it

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOO_LONG = f"is longer than {MAX_LINE >> 20} MiB"
_DECOMPRESSORS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda file: pa.CompressedInputStream(file, "zstd"),
}
NAME_CONFIG = "If it has several configs, name one: `--config`, in a recipe `bootstrap.import_config`."
_OF_DATASETS = {"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json"}  # written by `datasets`
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "dev", "val"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}


def read_rows(
    source: str, *, config: str | None = None, split: str | None = None, revision: str | None = None
) -> Iterator[PlacedRow]:
    """
    Yield the rows of a source with their places.

    Args:
        source: A file, see [`read_file`]; a folder of such files; or the id of a dataset on the Hub.
        config: Config of a dataset with several.
        split: Split of a folder or dataset. By default its only one, else `train`.
        revision: Branch, tag or commit of a dataset on the Hub; the latest state by default.
    Raises `ValueError` if the source is unreadable, or has no such config, split or revision.
    """
    path = Path(source)
    if path.is_dir():
        _check_unused(f"The folder `{source}` has no revisions", revision=revision)
        return chain.from_iterable(map(read_file, _find_files(path, config, split)))
    if path.is_file() or names_file(source):
        _check_unused(f"`{source}` is a file, which is read completely", config=config, split=split, revision=revision)
        return read_file(path)
    return _read_hub(source, config, split, revision)


def names_file(source: str) -> bool:
    """Whether a name ends as that of a file that can be read."""
    return _kind_of(Path(source)) is not None


def read_file(path: Path, *, is_strict: bool = False, advice: str = "") -> Iterator[PlacedRow]:
    """
    Yield the rows of a file with their places; `READABLE` lists the kinds. Empty lines are passed over.

    A JSON file has an object a line, a list of objects, or an object whose `data` is such a list. Only `\\n` ends a
    line: JSON texts may hold other line breaks, such as U+2028. A CSV file has a heading and commas, semicolons or
    tabs; its cells are texts.

    Args:
        is_strict: Whether the first unreadable line is an error. Otherwise a few are skipped, counted and named.
        advice: Continues the message for a file that cannot be opened.
    Raises `ValueError` if the file is missing, of another kind, damaged or not UTF-8, or if too many lines are
    unreadable.
    """
    kind = _kind_of(path)
    if not path.is_file():
        raise ValueError(f"There is no file `{path}`. {advice}".rstrip())
    if kind is None:
        raise ValueError(f"`{path}` is a file of an unsupported kind; name {READABLE}.")
    num_rows, num_unreadable, first = 0, 0, ""
    with _one_line(f"`{path}`", advice=advice), path.open("rb") as raw:
        opened = _DECOMPRESSORS.get(path.suffix.lower(), lambda file: file)(raw)
        for place, row in _READERS[kind](io.BufferedReader(opened)):
            num_rows += 1
            if not isinstance(row, str):
                yield f"{path}, {place}", row
                continue
            if is_strict:
                raise ValueError(f"{path}, {place} {row}")
            num_unreadable, first = num_unreadable + 1, first or f"{place} {row}"
    if not num_unreadable:
        return
    message = f"{num_unreadable} of the {num_rows} lines of `{path}` cannot be read; the first: {first}"
    most = min(max(FEW_UNREADABLE, SHARE_UNREADABLE * num_rows), max(1, MAX_SHARE_UNREADABLE * num_rows))
    if num_unreadable > most or num_unreadable == num_rows:
        raise ValueError(message)
    logger.warning("Skipped %s", message)


def read_csv(file: io.BufferedIOBase, delimiters: str = ",;\t") -> Iterator[tuple[int, Row | str]]:
    """
    Yield the rows of a CSV file as spreadsheets save it, each with its number there (the heading is row 1).

    A text in place of a row says why it cannot be read. A cell that is missing at a row's end is null.

    Args:
        delimiters: The one that the heading has most often separates the cells.
    """
    lines = _csv_lines(file)
    first = next(lines, "")
    # A cell may be longer than Python's limit of 131,072 characters.
    before = csv.field_size_limit(MAX_LINE)
    try:
        rows = csv.reader(chain([first], lines), delimiter=max(delimiters, key=first.count))
        names = next(rows, [])
        if twice := [name for name, number in Counter(names).items() if name and number > 1]:
            raise csv.Error(f"the heading names {', '.join(map(repr, twice))} more than once; rename a column")
        for number, cells in enumerate(rows, start=2):
            if len(cells) > len(names):
                yield number, f"has {len(cells)} cells, but the heading has {len(names)}."
            elif cells:
                yield number, dict(zip(names, [*cells, *[None] * (len(names) - len(cells))], strict=True))
    finally:
        csv.field_size_limit(before)


def _csv_lines(file: io.BufferedIOBase) -> Iterator[str]:
    for number, line in _lines(file):
        if isinstance(line, str):
            raise csv.Error(f"line {number} {line}.")
        yield line.decode("utf-8-sig" if number == 1 else "utf-8")


def _lines(file: io.BufferedIOBase) -> Iterator[tuple[int, bytes | str]]:
    """Yield a file's lines with their numbers from 1; a text in place of a line says why it cannot be read."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) < MAX_LINE or line.endswith(b"\n"):
            yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        yield number, _TOO_LONG


def _read_json(file: Any, *, is_lines: bool = False) -> Iterator[_Found]:
    """
    Read a document, or an object a line. Unless its name says the latter (`is_lines`), a file is a document if it is
    one value, or if its first line is none.
    """
    start = file.peek().removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start[:1] == b"[" or re.match(rb"\{\s*\n", start):
        yield from _name_rows(enumerate(_read_document(file.read(MAX_DOCUMENT))))
        return
    lines = ((number, line) for number, line in _lines(file) if isinstance(line, str) or line.strip())
    first = list(islice(lines, 2))
    if first and not is_lines:
        value = _parse_json(first[0][1])
        if len(first) == 1 and isinstance(value, dict) and (rows := _rows_of_data(value)):
            yield from _name_rows(enumerate(rows), "line 1, ")
            return
        if len(first) == 2 and isinstance(value, str):
            yield from _name_rows(enumerate(_read_document(_join(chain(first, lines)))))
            return
    for number, line in chain(first, lines):
        yield f"line {number}", _as_row(_parse_json(line))


def _join(lines: Iterable[tuple[int, bytes | str]]) -> bytes:
    """Join the lines of a document, up to its maximum size."""
    content = bytearray()
    for number, line in lines:
        if isinstance(line, str):
            raise OSError(f"line {number} {line}")
        content += line
        if len(content) >= MAX_DOCUMENT:
            break
    return bytes(content)


def _read_document(content: bytes) -> list[Any]:
    if len(content) >= MAX_DOCUMENT:
        raise OSError(f"a JSON document of over {MAX_DOCUMENT >> 20} MiB is not streamed; write one object a line")
    value = _parse_json(content)
    if isinstance(value, str):
        raise OSError(f"it {value}")
    return value if isinstance(value, list) else _rows_of_data(value) or [value]


def _rows_of_data(document: dict[str, Any]) -> list[Any] | None:
    """Return the rows under `data`, if it is a list of objects and the document itself has none of their keys."""
    rows = document.get("data")
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return None
    return None if rows[0].keys() & document.keys() else rows


def _parse_json(content: bytes | str) -> Any:
    """Parse UTF-8 with or without a byte order mark; a text says why it is unreadable, or that it is only a text."""
    if isinstance(content, str):  # says so already
        return f"{content}."
    try:
        # Decoded first: json would guess UTF-16 for single lines of a file that is no UTF-8.
        value = json.loads(content.strip().decode("utf-8-sig"))
        if rb"\ud" in content or rb"\uD" in content:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as err:
        return f"{_not_utf8(err)}."
    except UnicodeEncodeError as err:
        around = err.object[max(err.start - 40, 0) : err.start + 1]
        return f"has half of a surrogate pair, which cannot be written as UTF-8, after {around!r}."
    except ValueError as err:  # JSONDecodeError, or a number with more digits than Python reads
        return f"is not JSON ({err})."
    except RecursionError:
        return "has brackets that are nested too deeply."
    return value if isinstance(value, dict | list) else f"is {value!r:.80}; it must be an object."


def _as_row(value: Any) -> Row | str:
    return value if isinstance(value, dict | str) else f"is {value!r:.80}; it must be an object."


def _read_parquet(file: Any) -> Iterator[_Found]:
    # pyarrow seeks in the file, which is quick only if it is not compressed.
    source = file.raw if isinstance(file.raw, io.BufferedReader) else pa.BufferReader(file.read())
    with pq.ParquetFile(source, page_checksum_verification=True) as opened:
        batches = opened.iter_batches(ROWS_PER_BATCH, use_threads=False)
        yield from _name_rows(enumerate(chain.from_iterable(batch.to_pylist() for batch in batches)))


def _name_rows(rows: Iterable[tuple[int, Any]], before: str = "") -> Iterator[_Found]:
    for number, row in rows:
        yield f"{before}row {number}", _as_row(row)


_READERS: dict[str, Callable[[Any], Iterator[_Found]]] = {
    **dict.fromkeys((".jsonl", ".ndjson"), partial(_read_json, is_lines=True)),
    ".json": _read_json,
    ".csv": lambda file: _name_rows(read_csv(file)),
    ".tsv": lambda file: _name_rows(read_csv(file, "\t")),
    ".parquet": _read_parquet,
}


def _kind_of(path: Path) -> str | None:
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in _DECOMPRESSORS:
        endings.pop()
    return endings[-1] if endings and endings[-1] in _READERS else None


@contextmanager
def _one_line(name: str, also: tuple[type[Exception], ...] = (), advice: str = "") -> Iterator[None]:
    """Turn errors of files, formats and the Hub into a `ValueError` of one line."""
    kinds = (OSError, EOFError, UnicodeDecodeError, zlib.error, lzma.LZMAError, csv.Error, pa.ArrowException, *also)
    try:
        yield
    except kinds as err:
        said = (
            f"it {_not_utf8(err)}" if isinstance(err, UnicodeDecodeError) else str(err).strip() or type(err).__name__
        )
        # `datasets` adds lines with an example of its own.
        reason = " ".join(said.partition("Example of usage")[0].split())
        raise ValueError(f"Cannot read {name}: {cut_to_line(reason, 400).rstrip('.')}. {advice}".rstrip()) from err


def _not_utf8(err: UnicodeDecodeError) -> str:
    return f"is not UTF-8 ({err.reason}, byte 0x{err.object[err.start]:02x}); save the file as UTF-8"


def _check_unused(reason: str, **choice: str | None) -> None:
    given = {name: value for name, value in choice.items() if value is not None}
    if given:
        raise ValueError(f"{reason}; remove {given}.")


def _find_files(folder: Path, config: str | None, split: str | None) -> list[Path]:
    """List the files of a folder's split: as its card says, as for a dataset on the Hub, or else by their names."""
    card = folder / "README.md"
    has_configs = card.is_file() and re.search(r"^configs:", card.read_text("utf-8", "replace"), re.MULTILINE)
    if has_configs:
        splits = _splits_of_card(folder, config)
    else:
        _check_unused(f"The folder `{folder}` has no card (`README.md`) that names configs", config=config)
        splits = _splits_by_name(folder)
        if split is not None and split not in splits:  # `dev` is the split `validation`, but also a file's own name
            splits |= {split: [file for files in splits.values() for file in files if _own_name(file) == split]}
            splits = {name: files for name, files in splits.items() if files}
    return splits[choose_split(str(folder), splits, split)]


def _splits_of_card(folder: Path, config: str | None) -> dict[str, list[Path]]:
    if escape(str(folder)) != str(folder) or "::" in str(folder):
        raise ValueError(
            f"Cannot read `{folder}`: `*`, `?`, `[` and `::` in a folder's path would be read as a pattern. Rename it."
        )
    from datasets import load_dataset_builder  # late: loading it takes a second

    with _one_line(f"`{folder}`", also=(ValueError,), advice=NAME_CONFIG):
        files = load_dataset_builder(str(folder), config).config.data_files
    return {str(name): [Path(file) for file in found] for name, found in files.items()}


def _splits_by_name(folder: Path) -> dict[str, list[Path]]:
    """
    Sort a folder's files by split: a word such as `train` or `dev` in a file's name, or in that of its folder, names
    it. If there is no such word in any, all are the split `train`.
    """
    inside = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    files = [path for path in inside if names_file(path.name) and not any(part.startswith(".") for part in path.parts)]
    files = [path for path in files if path.name not in _OF_DATASETS]
    if not files and any(path.suffix == ".arrow" for path in inside):
        raise ValueError(f"`{folder}` has Arrow files; save the dataset by `to_parquet` or `to_json` in their place.")
    if not files:
        raise ValueError(f"`{folder}` has no data file: {READABLE}.")
    words = {path: re.split("[^a-z]+", str(path).lower()) for path in files}
    known = {path: next((_SPLIT_WORDS[word] for word in words[path] if word in _SPLIT_WORDS), None) for path in files}
    splits: dict[str, list[Path]] = {}
    for path in files:
        name = known[path] or (_own_name(path) if any(known.values()) else "train")
        is_shard = _SHARD.search(path.name.partition(".")[0])
        splits.setdefault(_own_name(path) if is_shard else name, []).append(folder / path)
    return splits


def _own_name(file: Path) -> str:
    """Name of a file without its ending and the number of a shard (`NAME-00000-of-00002`)."""
    return _SHARD.sub("", file.name.partition(".")[0])


def choose_split(source: str, splits: Collection[str], split: str | None) -> str:
    """
    Return the split to read: the one that is named, or else the only one, or else `train`.

    Raises `ValueError` if there is none of this name, or several without `train`.
    """
    if split is None and len(splits) == 1:
        return next(iter(splits))
    if split is None and "train" in splits:
        logger.info("Reading the split `train` of `%s`, which has %s; `--split` names another.", source, [*splits])
        return "train"
    if split is None or split not in splits:
        problem = f"has several splits, none of them `train`: {[*splits]}" if split is None else ""
        raise ValueError(
            f"`{source}` {problem or f'has no split `{split}`. Available: {[*splits]}'}. Name one of them:"
            f" `--split {next(iter(splits))}`, in a recipe `bootstrap.import_split`."
        )
    return split


def _read_hub(source: str, config: str | None, split: str | None, revision: str | None) -> Iterator[PlacedRow]:
    refusal = find_dataset_refusal(source, revision)
    if refusal is not None:
        raise ValueError(
            f"Cannot read `{source}`: {refusal}. A source is {READABLE}, a folder of these, or such an id."
        )
    from datasets import load_dataset  # late: loading it takes a second
    from datasets.exceptions import DatasetsError

    also = (ValueError, TypeError, DatasetsError)
    with _one_line(f"`{source}`", also, NAME_CONFIG):
        splits = load_dataset(source, config, revision=revision, streaming=True)
    chosen = choose_split(source, splits, split)
    with _one_line(f"`{source}[{chosen}]`", also):
        for index, row in enumerate(splits[chosen]):
            yield f"{source}[{chosen}], row {index}", row
