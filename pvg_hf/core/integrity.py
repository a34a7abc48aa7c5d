"""
Checks that the files of a finished phase still hold the bytes that were written.

The folder of a finished phase has `digests.json`, with the SHA-256 of each of its files. All are compared when a game
starts and before a round is published, and a JSON file also when it is read. Parquet files have checksums of their
own.
"""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError
from tqdm.auto import tqdm

from pvg_hf.core.commands import delete_command, play_command
from pvg_hf.core.disk_names import PHASE_RECORD
from pvg_hf.core.extensions import show_value
from pvg_hf.core.files import write_text

DIGESTS = "digests.json"

RECIPE_FILE = "recipe.yaml"
"""File that marks the root of a run."""


class DamagedFileError(ValueError):
    """
    Error for a file that is missing, unreadable or not as it was written.

    The message reads `{path} {what}`, e.g. `is missing`, and then the remedy: by default, for a file of a run's
    finished phase, to run that phase again.
    """

    def __init__(self, path: Path, what: str, remedy: str | None = None):
        self.path, self.what = path, what
        self.remedy = replay_advice(path) if remedy is None else remedy
        super().__init__(f"{path} {what}. {self.remedy}".rstrip())

    def __reduce__(self):
        return type(self), (self.path, self.what, self.remedy)


def replay_advice(path: Path) -> str:
    """Advise how to replace a phase's folder, or a file in it, that is unusable; empty for any other path."""
    folder = next((place for place in (path, *path.parents) if (place / PHASE_RECORD).is_file()), None)
    if folder is None:
        return ""
    run = next((root for root in folder.parents if (root / RECIPE_FILE).is_file()), None)
    commands = f": `{delete_command(folder)} && {play_command(run)}`" if run else ""
    return (
        f"Delete the folder {folder} and continue the run{commands}. The phase that wrote it runs again and writes the"
        " same bytes."
    )


def write_digests(folder: Path, *, without: Collection[str] = (), **notes: Any) -> None:
    """
    Write `digests.json` of a finished folder, with further values `notes`, and delete those of its subfolders.

    Hidden files, and those named in `without`, which may change, get no digest.
    """
    for nested in folder.rglob(DIGESTS):
        nested.unlink()
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    files = {
        name: _hash(path)
        for name, path in paths.items()
        if path.name not in without and not any(part.startswith(".") for part in name.split("/"))
    }
    write_text(folder / DIGESTS, json.dumps({"files": files, **notes}, indent=1, sort_keys=True) + "\n")


def digest_files(paths: Iterable[Path]) -> str:
    """Return a hash of the names and bytes of files, in their order and independent of their folder."""
    digest = hashlib.blake2b(digest_size=12)
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=32)).digest()
        digest.update(path.name.encode() + content)
    return digest.hexdigest()


@dataclass(frozen=True)
class Digests:
    """Contents of `digests.json`."""

    files: dict[str, str]  # SHA-256 by path
    settings: dict[str, Any] | None = None  # of the recipe, that the folder's phase was played with
    step: int | None = None  # of a checkpoint


def read_digests(folder: Path) -> Digests:
    """
    Read a folder's `digests.json`; a `DamagedFileError` if damaged.

    A folder without the file has no digests: whoever changes a file on purpose deletes it.
    """
    path = folder / DIGESTS
    return _parse(path, _read_text(path, None), Digests, None) if path.is_file() else Digests({})


def find_damaged(folder: Path) -> Iterator[DamagedFileError]:
    """
    Yield an error for each file of a finished folder that has changed, small files first. Missing files are left out.
    """
    try:
        digests = read_digests(folder).files
    except DamagedFileError as err:
        yield err
        return
    sizes = {name: path.stat().st_size for name in digests if (path := folder / name).is_file()}
    names, total = sorted(sizes, key=sizes.__getitem__), sum(sizes.values())
    is_silent = total < 2**30 or not sys.stderr.isatty() or os.environ.get("RANK", "0") != "0"
    with (
        tqdm(total=total, desc=f"checking {folder}", unit="B", unit_scale=True, disable=is_silent, leave=False) as bar,
        ThreadPoolExecutor(4) as threads,
    ):
        for name, digest in zip(names, threads.map(_hash, (folder / name for name in names)), strict=True):
            bar.update(sizes[name])
            if digest != digests[name]:
                yield _changed(folder / name)


def missing_files(folder: Path) -> list[Path]:
    """
    List files that have a digest but do not exist, except a prover's logged completions, which nothing depends on.
    """
    names = sorted(read_digests(folder).files)
    return [folder / name for name in names if "completions/" not in name and not (folder / name).is_file()]


def check_file(path: Path) -> None:
    """Compare a file of a finished phase with its digest, if it has one; a `DamagedFileError` if they differ."""
    folder = next((parent for parent in path.parents if (parent / DIGESTS).is_file()), None)
    if folder is None or not path.is_file():
        return
    digest = read_digests(folder).files.get(path.relative_to(folder).as_posix())
    if digest not in (None, _hash(path)):
        raise _changed(path)


@contextmanager
def naming_parquet(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors about unreadable bytes into a `DamagedFileError`."""
    try:
        yield
    except (pa.ArrowException, OSError) as err:
        if isinstance(err, OSError) and err.errno is not None:  # from the system: not found, no permission, ...
            raise
        reason = " ".join(str(err).split())
        raise DamagedFileError(path, f"is not a readable Parquet file; it is corrupt or truncated ({reason})") from err


def read_json(path: Path, kind: Any = Any, *, remedy: str | None = None) -> Any:
    """
    Read a file of JSON as a value of the type `kind`, such as a dataclass or `dict[str, Figure]`. Further fields of a
    dataclass are ignored.

    Raises a [`DamagedFileError`] with this remedy if the file is missing, is not JSON, or holds another type; the
    message then has the key and the value.
    """
    check_file(path)
    return _parse(path, _read_text(path, remedy), kind, remedy)


def read_mapping(path: Path, kind: Any, *, remedy: str | None = None) -> dict[str, Any]:
    """
    Read a file of JSON as a mapping, in the same way as [`read_json`]. It has the fields of the dataclass `kind`, and
    may have others.
    """
    check_file(path)
    text = _read_text(path, remedy)
    _parse(path, text, kind, remedy)
    return json.loads(text)


def read_json_lines(path: Path, kind: Any = dict[str, Any], *, remedy: str | None = None) -> list[dict[str, Any]]:
    """
    Read a file with one mapping per line, in the same way as [`read_json`]. Each has the fields of the dataclass
    `kind`, and may have others.
    """
    check_file(path)
    lines = _read_text(path, remedy).splitlines()
    for number, line in enumerate(lines, 1):
        _parse(path, line, kind, remedy, f" in line {number}")
    return [json.loads(line) for line in lines]


def convert(value: Any, kind: Any) -> Any:
    """
    Convert plain values, as JSON gives them, to the type `kind`, as [`read_json`] does; a `ValueError` if they have
    another type.
    """
    return _adapter(kind).validate_json(json.dumps(value), strict=True)


def is_like(value: Any, kind: Any) -> bool:
    """Whether plain values have the type `kind`, as [`convert`] reads it."""
    try:
        convert(value, kind)
    except ValueError:
        return False
    return True


@cache
def _adapter(kind: Any) -> TypeAdapter:
    return TypeAdapter(kind)


def _read_text(path: Path, remedy: str | None) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as err:
        raise DamagedFileError(path, "is missing", remedy) from err
    except UnicodeDecodeError as err:
        raise DamagedFileError(path, f"is damaged ({err})", remedy) from err


def _parse(path: Path, text: str, kind: Any, remedy: str | None, place: str = "") -> Any:
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as err:
        error = err.errors()[0]
        key = ".".join(map(str, error["loc"]))
        message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if error["type"] == "json_invalid":
            what = f"is damaged{place} ({message})"
        elif error["type"] == "missing":
            what = f"is damaged{place}: it has no `{key}`"
        else:
            named = f"`{key}`" if key else "its value"
            what = f"is damaged{place}: {named} is {show_value(error['input'])}; it {message}"
        raise DamagedFileError(path, what, remedy) from err


def _changed(path: Path) -> DamagedFileError:
    return DamagedFileError(path, "is damaged: its bytes are not those that were written")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
