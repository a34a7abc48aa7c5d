"""A run's folder: where everything is, and how a phase's results appear in it at once."""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.config.load import dump_recipe, load_kept_recipe
from pvg_hf.core.files import write_json, write_text
from pvg_hf.core.integrity import (
    DamagedFileError,
    log_line,
    parse_log_line,
    read_json,
    read_log,
    seal,
    unseal,
)
from pvg_hf.core.roles import Role
from pvg_hf.data.pairs.of_round import training_files
from pvg_hf.data.schema import round_folders, round_name
from pvg_hf.models.sources import is_adapter
from pvg_hf.models.value_model import CRITIC_FOLDER

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

    @classmethod
    def of(cls, recipe: Recipe) -> "RunFolder":
        """The folder that a recipe's run has, or will have."""
        return cls(Path(recipe.output_dir) / recipe.name)

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
            raise DamagedFileError(missing[0], "is missing")
        return files

    def mend_events(self) -> None:
        """Drop the lines of `events.jsonl` that cannot be read: a last one that a crash cut short, or damaged ones."""
        if not self.events.exists():
            return
        lines = self.events.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n") and parse_log_line(line) is not None]
        if len(whole) == len(lines):
            return
        if whole != lines[:-1]:
            logger.warning("%d line(s) of %s cannot be read and are dropped.", len(lines) - len(whole), self.events)
        write_text(self.events, b"".join(whole).decode())

    def read_events(self) -> tuple[list[dict[str, Any]], int]:
        """The lines of `events.jsonl` that can be read, and the number of others: one may be half-written just now."""
        return read_log(self.events)

    def has_event(self, event: str, **fields: Any) -> bool:
        """Whether such a line stands in `events.jsonl`."""
        wanted = {"event": event, **fields}
        return any(wanted.items() <= line.items() for line in self.read_events()[0])

    def log_event(self, event: str, **fields: Any) -> None:
        """Append a line with the time to `events.jsonl`."""
        with self.events.open("a", encoding="utf-8") as file:
            file.write(log_line({"time": time.time(), "event": event, **fields}))

    def write_lists(self, finished: list[str], metrics: Iterable[Mapping[str, Any]]) -> None:
        """
        Write `state.json` and `metrics.jsonl`. The former holds the latter's digest, and while that is being replaced both
        the old and the new one.
        """
        text = "".join(json.dumps(line) + "\n" for line in metrics)
        before = [self.metrics.read_bytes()] if self.metrics.exists() else []
        if before != [text.encode()]:
            self._write_state(finished, [*before, text.encode()])
            write_text(self.metrics, text)
        self._write_state(finished, [text.encode()])

    def _write_state(self, finished: list[str], metrics: list[bytes]) -> None:
        write_json(self.state, seal({"finished": finished, "metrics": [sha256(text).hexdigest() for text in metrics]}))

    def read_environment(self) -> dict[str, Any]:
        """`run.json`; empty where it is not there or damaged, as it is written anew at every start."""
        try:
            return unseal(self.environment, dict(read_json(self.environment)))
        except (ValueError, TypeError):  # damaged, or no mapping
            return {}

    def write_environment(self, values: Mapping[str, Any]) -> None:
        write_json(self.environment, seal(values))

    def read_recipe(self) -> Recipe:
        """
        The recipe that the run was begun with.

        Raises:
            DamagedFileError: if the file is damaged.
        """
        return load_kept_recipe(self.recipe)

    def write_recipe(self, recipe: Recipe) -> None:
        write_text(self.recipe, dump_recipe(recipe))
