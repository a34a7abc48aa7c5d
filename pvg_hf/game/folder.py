"""A run's folder: where everything is, and how a phase's results appear in it at once."""

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError, safe_open

from pvg_hf.config import Recipe, RecipeError, load_recipe
from pvg_hf.data.rounds import training_files
from pvg_hf.data.schema import round_folders, round_name
from pvg_hf.models.sources import is_adapter
from pvg_hf.models.value_model import CRITIC_FOLDER
from pvg_hf.roles import Role

logger = logging.getLogger(__name__)

LABELS = "labels"  # a folder beside a round's solutions: what its score verifier made of them
BEST_HELPFUL = "best-helpful"  # a folder beside a prover's last checkpoint
HELDOUT_HELPFUL = "heldout-helpful.parquet"  # what the prover that answers wrote on D_V's held-out part


@dataclass(frozen=True)
class RunFolder:
    """
    Paths of a run.

    Args:
        root (`Path`):
            `runs/NAME`.
    """

    root: Path

    @property
    def recipe(self) -> Path:
        return self.root / "recipe.yaml"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def environment(self) -> Path:
        """What the run was last played with."""
        return self.root / "run.json"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def report(self) -> Path:
        return self.root / "report.html"

    @property
    def models(self) -> Path:
        """Initial weights that the run made itself."""
        return self.root / "models"

    def verifier(self, round_index: int) -> Path:
        return self.root / "verifier" / round_name(round_index)

    def prover(self, round_index: int) -> Path:
        return self.root / "prover" / round_name(round_index)

    def best_helpful(self, round_index: int) -> Path | None:
        """The best helpful checkpoint of a round; `None` where the helpful role was not trained."""
        return next(self.prover(round_index).glob(f"**/{BEST_HELPFUL}"), None)

    def player(self, name: str, round_index: int | None = None, checkpoint: str | None = None) -> Path:
        """
        Folder of a trained player.

        Args:
            name (`str`):
                `prover` or `verifier`.
            round_index (`int`, *optional*):
                The last round that trained one by default.
            checkpoint (`str`, *optional*):
                Of the prover: `last`, `best-helpful`, or a role that has an adapter of its own. By default `last`, or
                `helpful` where each role has an adapter of its own.

        Raises:
            ValueError: if there is no such player; the message lists those that there are.
        """
        rounds = round_folders(self.root / name)
        if round_index is None:
            round_index = max(rounds, default=0)
        if round_index not in rounds:
            raise ValueError(f"{self.root} holds no {name} of round {round_index}; it has those of {list(rounds)}.")
        place = rounds[round_index]
        folders = [path for path in place.glob("**/") if path.name != CRITIC_FOLDER.name]
        checkpoints = {path.name: path for path in folders if is_adapter(path) or (path / "config.json").exists()}
        checkpoints["last"] = checkpoints.pop(place.name, None)  # none where each role has an adapter of its own
        if checkpoint is None:
            checkpoint = "last" if checkpoints["last"] is not None else Role.HELPFUL.value
        if checkpoints.get(checkpoint) is None:
            there = sorted(name for name, path in checkpoints.items() if path is not None)
            raise ValueError(f"{place} has no checkpoint `{checkpoint}`; it has {there}.")
        return checkpoints[checkpoint]

    def pool(self, round_index: int) -> Path:
        """The solutions of one round; -1 holds those of the base prover."""
        return self.root / "pool" / round_name(round_index)

    def evaluation(self, round_index: int) -> Path:
        return self.root / "evaluation" / round_name(round_index)

    def training_pools(self, round_index: int) -> list[Path]:
        """
        The Parquet files that the verifier of `round_index` learns from: the base's and every earlier round's.

        Raises:
            ValueError: if one of them is missing.
        """
        files = training_files(self.root / "pool", round_index)
        missing = [file for file in files if not file.exists()]
        if missing:
            raise ValueError(f"{missing[0]} is missing. {replay_advice(missing[0].parent)}")
        return files

    def mend_events(self) -> None:
        """Drop the lines of `events.jsonl` that cannot be read: a last one that a crash cut short, or damaged ones."""
        if not self.events.exists():
            return
        lines = self.events.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n") and _parse_event(line) is not None]
        if len(whole) == len(lines):
            return
        if whole != lines[:-1]:
            logger.warning("%d line(s) of %s cannot be read and are dropped.", len(lines) - len(whole), self.events)
        write_text(self.events, b"".join(whole).decode())

    def read_events(self) -> tuple[list[dict[str, Any]], int]:
        """The lines of `events.jsonl` that can be read, and the number of others: one may be half-written just now."""
        lines = self.events.read_bytes().splitlines() if self.events.exists() else []
        events = [event for event in map(_parse_event, lines) if event is not None]
        return events, len(lines) - len(events)

    def has_event(self, event: str, **fields: Any) -> bool:
        """Whether such a line stands in `events.jsonl`."""
        wanted = {"event": event, **fields}
        return any(wanted.items() <= line.items() for line in self.read_events()[0])

    def log_event(self, event: str, **fields: Any) -> None:
        """Append a line with the time to `events.jsonl`."""
        line = json.dumps({"time": time.time(), "event": event, **fields})
        with self.events.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def read_environment(self) -> dict[str, Any]:
        """`run.json`; empty where it is not there or damaged, as it is written anew at every start."""
        try:
            return dict(json.loads(self.environment.read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return {}

    def read_recipe(self) -> Recipe:
        """
        The recipe that the run was begun with.

        Raises:
            ValueError: if the file is damaged.
        """
        try:
            return load_recipe(self.recipe)
        except (RecipeError, UnicodeDecodeError) as err:
            raise ValueError(
                f"{self.recipe} cannot be read: {err}\nPut back the recipe that the run was begun with, or give the new "
                "one another `name`."
            ) from err

    def write_recipe(self, recipe: Recipe) -> None:
        write_text(self.recipe, yaml.safe_dump(recipe.to_dict(), sort_keys=False))


def partial_of(target: Path) -> Path:
    """Where a phase's results are written until it is finished."""
    return target.parent / f".{target.name}.partial"


@contextmanager
def staged(target: Path, *, is_main: bool) -> Iterator[Path]:
    """
    A folder to write a phase's results in, which becomes `target` by one rename when the block ends well. After a crash
    the unfinished folder is handed out again, with what is in it.
    """
    partial = partial_of(target)
    if is_main:
        partial.mkdir(parents=True, exist_ok=True)
    yield partial
    if is_main:
        sync_tree(partial)
        os.replace(partial, target)


def sync_tree(folder: Path) -> None:
    """Flush every file of `folder` to the disk, so that the rename does not overtake the contents."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a file by rename: it is whole or it is not there."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_json(path: Path, *, remedy: str | None = None) -> Any:
    """
    Args:
        path (`Path`):
            The file.
        remedy (`str`, *optional*):
            What to do if it cannot be read; for a file of a finished phase, which is the default, to play that again.

    Raises:
        ValueError: if the file is missing or damaged.
    """
    return _parse(path, json.loads, remedy)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """
    Raises:
        ValueError: if the file, one of a finished phase, is missing or damaged.
    """
    return _parse(path, lambda text: [json.loads(line) for line in text.splitlines()], None)


def _parse(path: Path, parse: Callable[[str], Any], remedy: str | None) -> Any:
    remedy = replay_advice(path.parent) if remedy is None else remedy
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError as err:
        raise ValueError(f"{path} is missing. {remedy}") from err
    except ValueError as err:  # neither JSON nor UTF-8
        raise ValueError(f"{path} is damaged ({err}). {remedy}") from err


def _parse_event(line: bytes) -> dict[str, Any] | None:
    """`None` for what is no line of an event log."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def replay_advice(folder: Path) -> str:
    """What to do about a file of a finished phase that cannot be used."""
    return (
        f"Delete the folder {folder} and continue the run: the phase that wrote it is played again, to the same bytes."
    )


def damaged_weights(folder: Path) -> Path | None:
    """A safetensors file under `folder` that cannot be read or was cut short; `None` if there is none."""
    for path in sorted(folder.rglob("*.safetensors")):
        try:
            with safe_open(path, framework="pt"):
                pass
        except SafetensorError:
            return path
    return None


def remove(folder: Path) -> None:
    """Delete a folder that may not be there."""
    shutil.rmtree(folder, ignore_errors=True)
