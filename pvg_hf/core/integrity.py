"""
Checks that the files of a run still hold the bytes that were written.

A finished folder holds `digests.json` with the size and SHA-256 of each of its files. A small file that is rewritten,
such as `phase.json`, contains its own digest. Runs of older versions have neither, so their files are only checked for
being well-formed.
"""

import hashlib
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import constants
from safetensors import SafetensorError, safe_open
from tqdm.auto import tqdm

from pvg_hf.core.commands import delete_command, play_command
from pvg_hf.core.disk_names import PHASE_RECORD
from pvg_hf.core.files import write_text

DIGESTS = "digests.json"

LARGE = 2**24  # bytes; the digests of files of at least this size are cached on disk, for later processes

_SEAL = "sha256"

_ADAPTER = "adapter_config.json"

_SETTLED_SECONDS = 2.0  # a file may change once more within the resolution of its time stamp

_LEVELS = 6  # no file is deeper in a finished folder

RECIPE_FILE = "recipe.yaml"
"""File that marks the root of a run."""

_TEXT_SEAL = re.compile(r"# SHA-256 of the lines below: ([0-9a-f]{64})\n")

Stamp = list[int]


class DamagedFileError(ValueError):
    """
    Error for a file that is missing, unreadable or not as it was written.

    Args:
        path (`Path`):
            The file.
        what (`str`):
            What is wrong; the message reads `{path} {what}`, e.g. `is missing`.
        remedy (`str`, *optional*):
            What to do about it. By default, for a file of a run's finished phase: run that phase again.
    """

    def __init__(self, path: Path, what: str, remedy: str | None = None):
        self.path, self.what = path, what
        phase = _phase_folder(path) if remedy is None else None
        self.remedy = remedy or ("" if phase is None else replay_advice(phase))
        super().__init__(f"{path} {what}. {self.remedy}".rstrip())

    def __reduce__(self):
        return type(self), (self.path, self.what, self.remedy)


def replay_advice(folder: Path) -> str:
    """Advise how to replace an unusable file of a finished phase."""
    run = next((root for root in folder.parents if (root / RECIPE_FILE).is_file()), None)
    commands = f": `{delete_command(folder)} && {play_command(run)}`" if run else ""
    return f"Delete the folder {folder} and continue the run{commands}. The phase that wrote it runs again and writes the same bytes."


def write_digests(folder: Path, *, without: Collection[str] = (), **notes: Any) -> None:
    """
    Write `digests.json` of a finished folder and delete those of its subfolders.

    Args:
        folder (`Path`):
            The folder. Hidden files get no digest.
        without (`Collection[str]`, *optional*):
            Names of files that get no digest, because they may change.
        notes (`Any`):
            Further values to store in `digests.json`.
    """
    for nested in folder.rglob(DIGESTS):
        nested.unlink()
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if (
            path.is_file()
            and path.name not in {DIGESTS, *without}
            and not any(part[0] == "." for part in name.split("/"))
        ):
            files[name] = {"size": path.stat().st_size, "sha256": _digest(path)}
    text = json.dumps(seal({"files": files, **notes}), indent=1, sort_keys=True) + "\n"
    write_text(folder / DIGESTS, text)


def digest_files(paths: Iterable[Path]) -> str:
    """Return a hash of the names and bytes of files, in their order and independent of their folder."""
    digest = hashlib.blake2b(digest_size=12)
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=32)).digest()
        digest.update(path.name.encode() + content)
    return digest.hexdigest()


def read_digests(folder: Path) -> dict[str, Any] | None:
    """
    Return the contents of a folder's `digests.json` (`files` and the notes), or `None` if it has none.

    Raises:
        DamagedFileError: if the file is damaged.
    """
    path = folder / DIGESTS
    if not path.is_file():
        return None
    stamp, known = _stamp(path), _read.get(path.absolute())
    if known is not None and known[0] == stamp:
        return known[1]
    begun = time.time_ns()
    values = read_json(path, remedy=replay_advice(folder), is_sealed=True)
    if not isinstance(values, dict) or _SEAL not in values:
        raise DamagedFileError(path, "is damaged: it has no digest of itself", replay_advice(folder))
    values = unseal(path, values, replay_advice(folder))
    if _is_settled(stamp, begun):
        _read[path.absolute()] = (stamp, values)
    return values


def find_damaged(folder: Path, *, names: Iterable[str] | None = None) -> Iterator[DamagedFileError]:
    """
    Compare files with the digests of their folder.

    A file with the size, times and inode of an earlier comparison is not read again.

    Args:
        folder (`Path`):
            A finished folder.
        names (`Iterable[str]`, *optional*):
            Paths relative to the folder, of the files to look at; all by default.

    Returns:
        `Iterator[DamagedFileError]`: one for each damaged file; files that can be checked quickly come first. Missing
        files are not reported.
    """
    try:
        digests = read_digests(folder)
    except DamagedFileError as err:
        yield err
        return
    wanted = None if names is None else set(names)
    if digests is None:
        found = sorted(path for path in folder.rglob("*") if path.suffix in _FORMS and path.is_file())
        found = [path for path in found if wanted is None or path.relative_to(folder).as_posix() in wanted]
        yield from _find_malformed(found, replay_advice(folder))
        return
    entries = {
        folder / name: entry
        for name, entry in digests["files"].items()
        if (wanted is None or name in wanted) and (folder / name).is_file()
    }
    # A different size is found without reading the file. `_ADAPTER` may be edited by hand, see `_digest_of_adapter`.
    resized = {
        path for path, entry in entries.items() if path.stat().st_size != entry["size"] and path.name != _ADAPTER
    }
    for path in sorted(resized):
        sizes = f"it has {path.stat().st_size:,} bytes, and had {entries[path]['size']:,} when it was written"
        yield DamagedFileError(path, f"is damaged: {sizes}", replay_advice(folder))
    others = [path for path in entries if path not in resized]
    for path, digest in _digests_of(folder, others):
        if digest != entries[path]["sha256"]:
            what = "is damaged: its bytes are not those that were written"
            yield DamagedFileError(path, what, replay_advice(folder))


def missing_files(folder: Path) -> list[Path]:
    """
    List files that have a digest but do not exist, except a prover's logged completions, which nothing depends on.
    """
    digests = read_digests(folder)
    names = [] if digests is None else sorted(digests["files"])
    return [folder / name for name in names if "completions/" not in name and not (folder / name).is_file()]


def check_file(path: Path) -> bool:
    """
    Compare a file with its digest.

    Returns:
        `bool`: whether the file belongs to a folder with digests.

    Raises:
        DamagedFileError: if the file is damaged.
    """
    folder = _finished_folder(path)
    if folder is None:
        return False
    for damage in find_damaged(folder, names=[path.relative_to(folder).as_posix()]):
        raise damage
    return True


def check_folder(folder: Path) -> None:
    """
    Check the files directly in a folder, such as a model's: by their digests, or else for being well-formed.

    Raises:
        DamagedFileError: for the first file that is damaged, or that has a digest but is missing.
    """
    finished = _finished_folder(folder / DIGESTS)
    if finished is not None:
        names = [path.relative_to(finished).as_posix() for path in folder.iterdir() if path.is_file()]
        damage = find_damaged(finished, names=names)
        missing = [path for path in missing_files(finished) if path.parent == folder]
    else:
        phase = _phase_folder(folder / DIGESTS)
        remedy = "Replace it with a complete copy." if phase is None else replay_advice(phase)
        damage = _find_malformed(sorted(path for path in folder.iterdir() if path.suffix in _FORMS), remedy)
        missing = []
    for found in damage:
        raise found
    for path in missing:
        raise DamagedFileError(path, "is missing", replay_advice(finished))


@contextmanager
def naming_parquet(path: Path) -> Iterator[None]:
    """
    Turn pyarrow's errors about unreadable bytes into one that names the file.

    Raises:
        DamagedFileError: instead of pyarrow's error.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as err:
        if isinstance(err, OSError) and err.errno is not None:  # from the system: not found, no permission, ...
            raise
        reason = " ".join(str(err).split())
        raise DamagedFileError(path, f"is not a readable Parquet file; it is corrupt or truncated ({reason})") from err


def seal(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values together with a digest of them."""
    return {**values, _SEAL: _digest_of_values(values)}


def unseal(path: Path, values: Mapping[str, Any], remedy: str | None = None) -> dict[str, Any]:
    """
    Return the values without the digest that [`seal`] added. Values of older versions have no digest.

    Raises:
        DamagedFileError: about `path`, if the digest does not match.
    """
    rest = {key: value for key, value in values.items() if key != _SEAL}
    if _SEAL in values and values[_SEAL] != _digest_of_values(rest):
        raise DamagedFileError(path, "is damaged: its values are not those that were written", remedy)
    return rest


def seal_text(text: str) -> str:
    """Prepend a digest of the text to it, as a YAML comment."""
    return f"# SHA-256 of the lines below: {hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def is_sealed_text_whole(text: str) -> bool:
    """
    Whether a text is as [`seal_text`] wrote it.

    Older versions wrote no digest, and never a comment as first line.
    """
    found = _TEXT_SEAL.match(text)
    if found is None:
        return bool(text.strip()) and not text.startswith("#")
    return hashlib.sha256(text[found.end() :].encode()).hexdigest() == found[1]


def log_line(event: Mapping[str, Any]) -> str:
    """Serialise an event as a line of JSON with a checksum."""
    return json.dumps({**event, "crc": _crc(event)}) + "\n"


def parse_log_line(line: bytes) -> dict[str, Any] | None:
    """
    Parse a line of an event log; `None` if it is malformed or fails its checksum.

    Older versions wrote no checksum.
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or "event" not in event:
        return None
    crc = event.pop("crc", None)
    return event if crc is None or crc == _crc(event) else None


def read_json(path: Path, *, remedy: str | None = None, is_sealed: bool = False) -> Any:
    """
    Read a file of JSON.

    Args:
        path (`Path`):
            The file.
        remedy (`str`, *optional*):
            What to do if the file cannot be read. By default: run the phase that wrote it again.
        is_sealed (`bool`, defaults to `False`):
            Whether the file contains its own digest, see [`seal`], so that its folder's digests are not read.

    Raises:
        DamagedFileError: if the file is missing or damaged.
    """
    return _parse(path, json.loads, remedy, is_sealed=is_sealed)


def read_json_lines(path: Path, *, remedy: str | None = None) -> list[dict[str, Any]]:
    """
    Read a file with one JSON value per line.

    Raises:
        DamagedFileError: if the file is missing or damaged. `remedy` is that of [`read_json`].
    """
    return _parse(path, lambda text: [json.loads(line) for line in text.splitlines()], remedy)


def _parse(path: Path, parse: Callable[[str], Any], remedy: str | None, *, is_sealed: bool = False) -> Any:
    remedy = replay_advice(_phase_folder(path) or path.parent) if remedy is None else remedy
    if not is_sealed:
        check_file(path)
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError as err:
        raise DamagedFileError(path, "is missing", remedy) from err
    except (ValueError, RecursionError) as err:  # neither JSON nor UTF-8
        raise DamagedFileError(path, f"is damaged ({err})", remedy) from err


def _finished_folder(path: Path) -> Path | None:
    """Find the nearest folder above a file that has digests."""
    return next((folder for folder in list(path.parents)[:_LEVELS] if (folder / DIGESTS).is_file()), None)


def _phase_folder(path: Path) -> Path | None:
    """Find the folder of the phase that a run's file belongs to."""
    return next((folder for folder in list(path.parents)[:_LEVELS] if (folder / PHASE_RECORD).is_file()), None)


def _digest_of_values(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _crc(event: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(event, sort_keys=True).encode()):08x}"


# For files without digests: can the file be parsed as its suffix promises? Checked as far as possible without reading
# it all.

_well_formed: dict[Path, Stamp] = {}


def _find_malformed(paths: Iterable[Path], remedy: str) -> Iterator[DamagedFileError]:
    for path in paths:
        stamp = _stamp(path)
        if _well_formed.get(path.absolute()) == stamp:
            continue
        try:
            _FORMS[path.suffix](path)
            _well_formed[path.absolute()] = stamp
        except (ValueError, OSError, RecursionError, SafetensorError) as err:  # pyarrow raises either of the first two
            yield DamagedFileError(path, f"is damaged or truncated ({str(err).strip()})", remedy)


def _check_lines(path: Path) -> None:
    for line in path.read_bytes().splitlines():
        json.loads(line)


def _open_weights(path: Path) -> None:
    with safe_open(path, framework="np"):
        pass


_FORMS: dict[str, Callable[[Path], object]] = {
    ".json": lambda path: json.loads(path.read_bytes()),
    ".jsonl": _check_lines,
    ".parquet": pq.read_metadata,
    ".safetensors": _open_weights,
}


# Digests of files, each computed once per process.

_known: dict[Path, tuple[Stamp, str]] = {}

_read: dict[Path, tuple[Stamp, dict[str, Any]]] = {}  # contents of each `digests.json`


def _digests_of(folder: Path, paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """
    Yield the digests of files of a folder, small ones first, with a progress bar on a terminal if it takes seconds.
    """
    if all(map(_is_known, paths)):
        yield from ((path, _known[path.absolute()][1]) for path in paths)
        return
    _recall(folder, paths)
    paths = sorted(paths, key=lambda path: path.stat().st_size)
    waiting = [path for path in paths if not _is_known(path)]
    total = sum(path.stat().st_size for path in waiting)
    is_silent = total < 2**30 or not sys.stderr.isatty() or os.environ.get("RANK", "0") != "0"
    with (
        tqdm(total=total, desc=f"checking {folder}", unit="B", unit_scale=True, disable=is_silent, leave=False) as bar,
        ThreadPoolExecutor(4) as threads,
    ):
        for path, digest in zip(paths, threads.map(_digest, paths), strict=True):
            bar.update(path.stat().st_size if path in waiting else 0)
            yield path, digest
    if total >= LARGE:
        _remember(folder)


def _digest(path: Path) -> str:
    if _is_known(path):
        return _known[path.absolute()][1]
    stamp, begun = _stamp(path), time.time_ns()
    if path.name == _ADAPTER:
        digest = _digest_of_adapter(path)
    else:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    if _is_settled(stamp, begun):
        _known[path.absolute()] = (stamp, digest)
    return digest


def _digest_of_adapter(path: Path) -> str:
    """Hash an adapter's configuration without the path of its base model, which a user may edit after moving a run."""
    try:
        values = json.loads(path.read_bytes())
        return _digest_of_values({key: value for key, value in values.items() if key != "base_model_name_or_path"})
    except (AttributeError, ValueError, RecursionError):
        return "unreadable"


def _is_settled(stamp: Stamp, begun: int) -> bool:
    """Whether a file read since `begun` cannot have changed in the meantime without changing its time stamp."""
    return begun - max(stamp[1:3]) > _SETTLED_SECONDS * 1e9


def _is_known(path: Path) -> bool:
    known = _known.get(path.absolute())
    return known is not None and known[0] == _stamp(path)


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _recall(folder: Path, paths: Iterable[Path]) -> None:
    """Load the digests of large files that earlier processes cached."""
    if all(path.stat().st_size < LARGE for path in paths):
        return
    try:
        noted = json.loads(_notes_file(folder).read_bytes())
        for name, (stamp, digest) in noted.items():
            _known.setdefault((folder / name).absolute(), (stamp, digest))
    except (OSError, ValueError, TypeError, AttributeError):
        return  # no usable cache: every file is read again


def _remember(folder: Path) -> None:
    place = folder.absolute()
    known = {path: found for path, found in _known.items() if found[0][0] >= LARGE and path.is_relative_to(place)}
    noted = {path.relative_to(place).as_posix(): found for path, found in known.items()}
    try:
        _notes_file(folder).parent.mkdir(parents=True, exist_ok=True)
        write_text(_notes_file(folder), json.dumps(noted))
    except OSError:
        return  # the next process reads them again


def _notes_file(folder: Path) -> Path:
    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:32]
    return Path(constants.HF_HOME) / "pvg_hf" / "digests" / f"{name}.json"
