"""A run's folder: where everything is, and how a phase's results appear in it at once."""

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pvg_hf.config import Recipe
from pvg_hf.data.schema import round_name
from pvg_hf.roles import GAME_ROLES, Role


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
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def models(self) -> Path:
        """Initial weights that the run made itself."""
        return self.root / "models"

    def verifier(self, round_index: int) -> Path:
        return self.root / "verifier" / round_name(round_index)

    def prover(self, round_index: int) -> Path:
        return self.root / "prover" / round_name(round_index)

    def pool(self, round_index: int) -> Path:
        """The solutions of one round; -1 holds those of the base prover."""
        return self.root / "pool" / round_name(round_index)

    def evaluation(self, round_index: int) -> Path:
        return self.root / "evaluation" / round_name(round_index)

    def training_pools(self, round_index: int) -> list[Path]:
        """The Parquet files that the verifier of `round_index` learns from: the base's and every earlier round's."""
        files = [self.pool(-1) / f"{Role.BASE}.parquet"]
        files += [self.pool(k) / f"{role}.parquet" for k in range(round_index) for role in GAME_ROLES]
        return [file for file in files if file.exists()]

    def log_event(self, event: str, **fields: Any) -> None:
        """Append a line with the time to `events.jsonl`."""
        line = json.dumps({"time": time.time(), "event": event, **fields})
        with self.events.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def read_recipe(self) -> dict[str, Any]:
        return yaml.safe_load(self.recipe.read_text(encoding="utf-8"))

    def write_recipe(self, recipe: Recipe) -> None:
        write_text(self.recipe, yaml.safe_dump(recipe.to_dict(), sort_keys=False))


@contextmanager
def staged(target: Path, *, is_main: bool) -> Iterator[Path]:
    """
    A folder to write a phase's results in, which becomes `target` by one rename when the block ends well. After a crash
    the unfinished folder is handed out again, with what is in it.
    """
    partial = target.parent / f".{target.name}.partial"
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


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def remove(folder: Path) -> None:
    """Delete a folder that may not be there."""
    shutil.rmtree(folder, ignore_errors=True)
