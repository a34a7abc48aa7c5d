"""A run's folder: paths of its files, its event log, and the files that describe the run as a whole."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.config.load import dump_recipe, load_kept_recipe
from pvg_hf.core.disk_names import BASE_ROUND, CRITIC_FOLDER, round_folders, round_name
from pvg_hf.core.files import Journal, write_json, write_text
from pvg_hf.core.integrity import (
    RECIPE_FILE,
    DamagedFileError,
    log_line,
    parse_log_line,
    read_json,
    seal,
    unseal,
)
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.run.file_names import (
    BEST_HELPFUL,
    CALL_SUMMARY,
    ENVIRONMENT,
    EVENTS,
    FALSE_POSITIVES,
    METRICS,
    PILOT,
    REPORT,
    ROUND_FOLDERS,
    STATE,
    pool_file,
)


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
        """Folder of a recipe's run, which need not exist yet."""
        return cls(Path(recipe.output_dir) / recipe.name)

    @classmethod
    def find(cls, root: Path) -> "RunFolder":
        """
        The folder of an existing run.

        Raises:
            ValueError: if `root` has no `recipe.yaml`; the message lists the runs that are there.
        """
        folder = cls(root)
        if folder.recipe.is_file():
            return folder
        what = f"{root} is not a run's folder: it has no {RECIPE_FILE}" if root.exists() else f"{root} does not exist"
        found = sorted(str(path.parent) for path in (root if root.exists() else root.parent).glob(f"*/{RECIPE_FILE}"))
        advice = (
            f"The runs there are {', '.join(found[:12])}"
            if found
            else "Play one first: `make demo` plays runs/quickstart in a few minutes"
        )
        raise ValueError(f"{what}. {advice}.")

    @property
    def recipe(self) -> Path:
        return self.root / RECIPE_FILE

    @property
    def state(self) -> Path:
        return self.root / STATE

    @property
    def events(self) -> Path:
        return self.root / EVENTS

    @property
    def environment(self) -> Path:
        """Versions and machine that the run was last played with."""
        return self.root / ENVIRONMENT

    @property
    def metrics(self) -> Path:
        return self.root / METRICS

    @property
    def pilot(self) -> Path:
        """Solutions that the base prover wrote before the game."""
        return self.root / PILOT

    @property
    def report(self) -> Path:
        return self.root / REPORT

    @property
    def models(self) -> Path:
        """Initial weights that the run made itself."""
        return self.root / "models"

    def round_folder(self, kind: str, round_index: int) -> Path:
        """Folder of a round in `verifier`, `prover`, `pool` or `evaluation`; -1 is the base prover's in `pool`."""
        assert kind in ROUND_FOLDERS
        return self.root / kind / round_name(round_index)

    def verifier(self, round_index: int) -> Path:
        return self.round_folder("verifier", round_index)

    def prover(self, round_index: int) -> Path:
        return self.round_folder("prover", round_index)

    def rounds(self, kind: str) -> dict[int, Path]:
        """The folders of all rounds in `verifier`, `prover`, `pool` or `evaluation`, by round."""
        return round_folders(self.root / kind)

    def phase_folders(self) -> list[Path]:
        """Folders of all finished phases."""
        rounds = [place for kind in ROUND_FOLDERS for place in self.rounds(kind).values()]
        return [place for place in (self.models, self.pool(BASE_ROUND), *rounds) if place.is_dir()]

    def best_helpful(self, round_index: int) -> Path | None:
        """Best helpful checkpoint of a round; `None` if the helpful role was not trained."""
        return next(self.prover(round_index).glob(f"**/{BEST_HELPFUL}"), None)

    def player(self, name: str, round_index: int | None = None, checkpoint: str | None = None) -> Path:
        """
        Folder of a trained player.

        Args:
            name (`str`):
                `prover` or `verifier`.
            round_index (`int`, *optional*):
                The round; by default the last one that trained this player.
            checkpoint (`str`, *optional*):
                Checkpoint of the prover: `last`, `best-helpful`, or a role if each role has a separate adapter. The default
                is `last`, or `helpful` with separate adapters.

        Raises:
            ValueError: if there is no such player; the message lists the available ones.
        """
        rounds = self.rounds(name)
        if round_index is None:
            round_index = max(rounds, default=0)
        if round_index not in rounds:
            raise ValueError(f"{self.root} has no {name} of round {round_index}; it has those of {list(rounds)}.")
        place = rounds[round_index]
        folders = [path for path in place.glob("**/") if path.name != CRITIC_FOLDER.name]
        checkpoints = {
            path.name: path
            for path in folders
            if any((path / name).exists() for name in ("adapter_config.json", "config.json"))
        }
        checkpoints["last"] = checkpoints.pop(place.name, None)  # `None` if each role has a separate adapter
        if checkpoint is None:
            checkpoint = "last" if checkpoints["last"] is not None else Role.HELPFUL.value
        if checkpoints.get(checkpoint) is None:
            there = sorted(name for name, path in checkpoints.items() if path is not None)
            raise ValueError(f"{place} has no checkpoint `{checkpoint}`; it has {there}.")
        return checkpoints[checkpoint]

    def pool(self, round_index: int) -> Path:
        """Folder of one round's solutions; -1 is the base prover."""
        return self.round_folder("pool", round_index)

    def evaluation(self, round_index: int) -> Path:
        return self.round_folder("evaluation", round_index)

    def call_summaries(self) -> list[Path]:
        """`checks.json` of all finished phases that called a checker."""
        return sorted(self.root.glob(f"[!.]*/[!.]*/{CALL_SUMMARY}"))

    def false_positive_summaries(self) -> list[Path]:
        """`false-positives.json` of all finished prover phases that have one, by round."""
        return sorted(self.root.glob(f"prover/[!.]*/{FALSE_POSITIVES}"))

    def training_pools(self, round_index: int) -> list[Path]:
        """
        Parquet files that the verifier of `round_index` learns from: the base prover's and every earlier round's.

        Raises:
            ValueError: if one of them is missing.
        """
        files = [self.pool(BASE_ROUND) / pool_file(Role.BASE)]
        files += [self.pool(k) / pool_file(role) for k in range(round_index) for role in GAME_ROLES]
        missing = [file for file in files if not file.exists()]
        if missing:
            raise DamagedFileError(missing[0], "is missing")
        return files

    @property
    def event_log(self) -> Journal:
        return Journal(self.events, encode=log_line, parse=parse_log_line)

    def mend_events(self) -> None:
        """Drop unreadable lines of `events.jsonl`: a last line truncated by a crash, or damaged lines."""
        if self.events.exists():
            self.event_log.keep()

    def read_events(self) -> tuple[list[dict[str, Any]], int]:
        """Return the readable events and the number of other lines; the last line may be half-written."""
        return self.event_log.scan()

    def has_event(self, event: str, **fields: Any) -> bool:
        """Whether `events.jsonl` has a line with this event and these fields."""
        wanted = {"event": event, **fields}
        return any(wanted.items() <= line.items() for line in self.read_events()[0])

    def log_event(self, event: str, **fields: Any) -> None:
        """Append a line to `events.jsonl`, with the current time unless `time` is a field; a time of `None` is not known."""
        self.event_log.append({"time": time.time(), "event": event, **fields})

    def write_lists(self, finished: list[str], metrics: Iterable[Mapping[str, Any]]) -> None:
        """
        Write `state.json` and `metrics.jsonl`.

        The state holds the digest of the metrics; while the metrics are being replaced, it holds the old and the new digest, so
        that a crash at any moment leaves a valid pair of files.
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
        """Contents of `run.json`; empty if it is missing or damaged, because every start writes it again."""
        try:
            return unseal(self.environment, dict(read_json(self.environment)))
        except (ValueError, TypeError):  # damaged, or not a mapping
            return {}

    def write_environment(self, values: Mapping[str, Any]) -> None:
        write_json(self.environment, seal(values))

    def read_pilot(self) -> dict[str, Any]:
        """
        Settings and rows of the pilot (`settings`, `rows`); empty if there was none.

        Raises:
            DamagedFileError: if the file is damaged.
        """
        if not self.pilot.exists():
            return {}
        remedy = "Delete it: a pilot only decides whether a game begins."
        return unseal(self.pilot, read_json(self.pilot, remedy=remedy, is_sealed=True), remedy)

    def read_recipe(self) -> Recipe:
        """
        Load the recipe that the run was started with.

        Raises:
            DamagedFileError: if the file is damaged.
        """
        return load_kept_recipe(self.recipe)

    def write_recipe(self, recipe: Recipe) -> None:
        write_text(self.recipe, dump_recipe(recipe))
