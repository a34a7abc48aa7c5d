"""
Layout of a run's folder: names and paths of its files, and the phases of a game in order.

Hub and app read it from here.
"""

import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.config.fields import AfterBootstrap, MayChange, marked_keys, marks_of, without_keys
from pvg_hf.config.load import dump_recipe, load_kept_recipe
from pvg_hf.config.recipe import leaves
from pvg_hf.core.disk_names import (
    BASE_ROUND,
    CALIBRATION,
    CRITIC_FOLDER,
    PHASE_RECORD,
    REVIEW,
    round_folders,
    round_index_of,
    round_name,
)
from pvg_hf.core.extensions import suggest
from pvg_hf.core.files import Journal, write_json, write_text
from pvg_hf.core.integrity import RECIPE_FILE, DamagedFileError, is_like, read_json, read_mapping
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.run.stored import EVENT_TYPES, Environment, LoggedEvent, PilotFile, RunState

ROUND_PHASES = ("verifier", "prover", "mint", "evaluate")
_PHASE_FOLDERS = {
    "warmup": "models",
    "bootstrap": "pool",
    "verifier": "verifier",
    "prover": "prover",
    "mint": "pool",
    "evaluate": "evaluation",
}
ROUND_FOLDERS = tuple(_PHASE_FOLDERS[name] for name in ROUND_PHASES)  # each has a folder for each round

ENVIRONMENT = "run.json"  # versions and machine that the run was last played with
STATE = "state.json"  # finished phases
REPORT = "report.html"
PILOT = "pilot.json"  # solutions that the base prover wrote before the game

JUDGING = "judging"  # folder of the evaluations that follow a round: `judging/NAME/round-000/`

# In the folder of the run and in that of each phase.
METRICS = "metrics.jsonl"  # a line for each step, and for each phase's end
EVENTS = "events.jsonl"  # events of the run, or calls of a checker in a phase

# In the folder of each phase.
CALL_SUMMARY = "checks.json"  # summary of the phase's calls of a checker

# In the folder of a round's verifier, next to its weights and its calibration.
HELDOUT = "heldout.parquet"  # scores of solutions to held-out problems
PAIRS = "pairs.json"  # numbers of pairs, and of solutions that are in none
VALIDATION = "validation.json"  # values of the checkpoints from which the best was kept

# In the folder of a round's prover.
FALSE_POSITIVES = "false-positives.json"  # shares of wrong solutions accepted before and early in each training

# In the folder of a round's prover, next to its weights; with `roles: separate`, in that of each role.
BEST_HELPFUL = "best-helpful"  # folder of the best helpful checkpoint
CHECKPOINTS = (
    "checkpoints"  # folder of the trainer's checkpoints, deleted when the training ends; a verifier has it, too
)
WRONG_SOLUTIONS = "wrong-solutions.jsonl"  # counts of wrong solutions, and of accepted ones, early in a training
COMPLETIONS = "completions"  # folder of the solutions that were written in each step
STEPS = "steps.jsonl"  # metrics of a role that is trained separately
RECOVERY = "recovery.json"  # how the training started again after a collapse of the sneaky role

# In the folder of a round's solutions.
HELDOUT_HELPFUL = "heldout-helpful.parquet"  # helpful solutions of the verifier's held-out problems
BATCHES = "batches"  # folder of the batches that were sampled so far, deleted when the phase ends
LABELS = "labels"  # folder of the labels that a generative verifier assigned

# In the folder of a round's evaluation.
FIGURES = "metrics.json"  # figures with n and interval
PROBLEMS = "problems.parquet"  # figures of each test problem
ANSWERING = "answering.json"  # rules that choose answers, and their calibration
POOL_SCORE_PARTS = "pool_scores"  # folder of the pools that were scored so far, deleted when all are
POOL_SCORES = "pool_scores.parquet"  # scores of test solutions by the verifiers of several rounds
EVALUATIONS = "evaluations.parquet"  # evaluations of test proofs by a generative verifier

# In the folder of an evaluation that follows a round.
JUDGEMENT = "judgement.json"  # figures with n and interval, and the settings

REWRITTEN = frozenset({PHASE_RECORD, REVIEW})
"""Files of a phase without a digest: the first has times, so that it differs between equal runs, and people edit the
second."""


def pool_file(role: Role) -> str:
    """Name of the file with solutions of the verifier's problems (D_V) in a role."""
    return f"{role}.parquet"


def pool_test_file(role: Role | str) -> str:
    """Name of the file with solutions of test problems in a role, or by the checkpoint `best-helpful`."""
    return f"test-{role}.parquet"


OF_PHASE = (METRICS, PHASE_RECORD, CALL_SUMMARY)
"""Files that the folder of each phase may have."""

RESULT_FILES = {
    "models": (),
    "pool": (
        pool_file(Role.BASE),
        *(name(role) for role in GAME_ROLES for name in (pool_file, pool_test_file)),
        pool_test_file(BEST_HELPFUL),
        HELDOUT_HELPFUL,
    ),
    "verifier": (PAIRS, CALIBRATION, HELDOUT),
    "prover": (RECOVERY, FALSE_POSITIVES),
    "evaluation": (FIGURES, ANSWERING, PROBLEMS, POOL_SCORES, EVALUATIONS),
}
"""Further files of finished phases, apart from models, by the kind of the phase's folder."""


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run, whose folder `root` is `runs/NAME`."""

    root: Path

    @classmethod
    def of(cls, recipe: Recipe) -> "RunFolder":
        """Folder of a recipe's run, which need not exist yet."""
        return cls(Path(recipe.output_dir) / recipe.name)

    @classmethod
    def find(cls, root: Path) -> "RunFolder":
        """The folder of an existing run; a `ValueError` that lists the runs there if `root` has no `recipe.yaml`."""
        folder = cls(root)
        if folder.recipe.is_file():
            return folder
        what = f"{root} is not a run's folder: it has no {RECIPE_FILE}" if root.exists() else f"{root} does not exist"
        found = sorted(str(path.parent) for path in (root if root.exists() else root.parent).glob(f"*/{RECIPE_FILE}"))
        advice = (
            f"The runs there are {', '.join(found[:12])}"
            if found
            else "Play one first: `pvg play demo` plays runs/demo in a few minutes"
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
        Folder of a trained player, `prover` or `verifier`, by default of the last round that trained it.

        The checkpoint of a prover is `last`, `best-helpful`, or a role if each role has a separate adapter. The
        default is `last`, or `helpful` with separate adapters.

        Raises `ValueError` if there is no such player; the message lists the available ones.
        """
        rounds = self.rounds(name)
        if round_index is None:
            round_index = max(rounds, default=0)
        if round_index not in rounds:
            raise ValueError(f"{self.root} has no {name} of round {round_index}; it has those of {list(rounds)}.")
        place = rounds[round_index]
        folders = [path for path in place.glob("**/") if path.name != CRITIC_FOLDER.name]
        checkpoints = {
            # The folder itself is one unless each role has a separate adapter.
            "last" if path == place else path.name: path
            for path in folders
            if any((path / name).exists() for name in ("adapter_config.json", "config.json"))
        }
        if checkpoint is None:
            checkpoint = "last" if "last" in checkpoints else Role.HELPFUL.value
        if checkpoint not in checkpoints:
            raise ValueError(f"{place} has no checkpoint `{checkpoint}`; it has {sorted(checkpoints)}.")
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

        If one of them is missing, this is a `DamagedFileError`.
        """
        files = [self.pool(BASE_ROUND) / pool_file(Role.BASE)]
        files += [self.pool(k) / pool_file(role) for k in range(round_index) for role in GAME_ROLES]
        missing = [file for file in files if not file.exists()]
        if missing:
            raise DamagedFileError(missing[0], "is missing")
        return files

    def mend_events(self) -> None:
        """Drop unreadable lines of `events.jsonl`: a last line truncated by a crash, or damaged lines."""
        if self.events.exists():
            Journal(self.events).keep(_is_event)

    def read_events(self) -> tuple[list[dict[str, Any]], int]:
        """Return the readable events and the number of other lines; the last line may be half-written."""
        rows, num_lost = Journal(self.events).scan()
        events = [row for row in rows if _is_event(row)]
        return events, num_lost + len(rows) - len(events)

    def find_events(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Lines of `events.jsonl` with this event and these fields."""
        wanted = {"event": event, **fields}
        return [line for line in self.read_events()[0] if wanted.items() <= line.items()]

    def has_event(self, event: str, **fields: Any) -> bool:
        return bool(self.find_events(event, **fields))

    def log_event(self, event: str, **fields: Any) -> None:
        """Append a line to `events.jsonl`, with the current time unless `time` is a field."""
        Journal(self.events).append({"time": time.time(), "event": event, **fields})

    def write_state(self, finished: Iterable["PhaseKey"], error: str | None = None) -> None:
        write_json(self.state, {"finished": list(map(str, finished)), **({} if error is None else {"error": error})})

    def read_error(self) -> str | None:
        """Return the error that ended the last start; `None` if there was none, or the file with it is damaged."""
        try:
            return read_json(self.state, RunState).error
        except ValueError:
            return None

    def read_environment(self) -> dict[str, Any]:
        """Contents of `run.json`; empty if it is missing or damaged, because every start writes it again."""
        try:
            return read_mapping(self.environment, Environment)
        except ValueError:
            return {}

    def read_pilot(self) -> dict[str, Any]:
        """
        Settings and rows of the pilot (`settings`, `rows`); empty if there was none, a `DamagedFileError` if it is
        damaged.
        """
        if not self.pilot.exists():
            return {}
        return read_mapping(self.pilot, PilotFile, remedy="Delete it: a pilot only decides whether a game begins.")

    def read_recipe(self) -> Recipe:
        """Load the recipe that the run was started with; a `DamagedFileError` if its file is damaged."""
        return load_kept_recipe(self.recipe)

    def write_recipe(self, recipe: Recipe) -> None:
        write_text(self.recipe, dump_recipe(recipe))


def _is_event(row: dict[str, Any]) -> bool:
    return is_like(row, LoggedEvent) and is_like(row, EVENT_TYPES.get(row["event"], LoggedEvent))


EXPECTED_ALERTS = {
    "goodharting": "The sneaky role is trained for goodharting: the alert says when the verifier began to give way."
}
"""Kinds of alerts that a good game has too, each with a sentence that says so."""


@dataclass(frozen=True)
class PhaseKey:
    """
    Identifies a phase of a game: `warmup` or `bootstrap` without a round, or one of `ROUND_PHASES` with its round,
    from 0.
    """

    name: str
    round_index: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The phase as fields of an event."""
        return {"phase": self.name, "round": self.round_index}

    def __str__(self) -> str:
        return self.name if self.round_index is None else f"{round_name(self.round_index)}/{self.name}"

    @classmethod
    def parse(cls, text: str, round_index: int | None = None) -> "PhaseKey":
        """Parse `round-000/prover`, or `prover` with a separate `round_index`."""
        match = re.fullmatch(r"round-(\d+)/(.+)", text)
        if match is None:
            return cls(text, round_index)
        if round_index not in (None, int(match[1])):
            raise ValueError(
                f"The phase `{text}` and the round {round_index} contradict each other; name the round only once."
            )
        return cls(match[2], int(match[1]))

    @property
    def place(self) -> tuple[int, int]:
        """
        Key that sorts phases by their order in the game; the phases before the first round are those of round -1.
        """
        return BASE_ROUND if self.round_index is None else self.round_index, list(_PHASE_FOLDERS).index(self.name)

    def target(self, folder: RunFolder) -> Path:
        """Folder of the phase's results; the phase is finished if it exists."""
        kind = _PHASE_FOLDERS[self.name]
        return folder.models if kind == "models" else folder.round_folder(kind, self.place[0])


def early_phases(recipe: Recipe) -> list[PhaseKey]:
    """Phases before the first round, in order."""
    has_warmup = any(player.is_made for player in recipe.players.values())
    return [PhaseKey(name) for name in (("warmup", "bootstrap") if has_warmup else ("bootstrap",))]


def schedule(recipe: Recipe) -> list[PhaseKey]:
    """All phases of the game, in order."""
    return early_phases(recipe) + [PhaseKey(name, k) for k in range(recipe.num_rounds) for name in ROUND_PHASES]


def choose_phases(recipe: Recipe, name: str | None, round_index: int | None) -> list[PhaseKey]:
    """
    List the phases to play: all, or the one with a name and a round; a `ValueError` that suggests one if there is none
    such.
    """
    phases = schedule(recipe)
    if name is None:
        if round_index is not None:
            raise ValueError(
                f"Round {round_index} was named without a phase. Name the phase too (`--phase prover --round "
                f"{round_index}`), or neither: the whole game is then played, up to `num_rounds`."
            )
        return phases
    wanted = PhaseKey.parse(name, round_index)
    if wanted not in phases:
        raise ValueError(f"The game has no phase `{wanted}`. {_suggest_phase(wanted, phases)}")
    return [wanted]


def _suggest_phase(wanted: PhaseKey, phases: list[PhaseKey]) -> str:
    rounds = [key.round_index for key in phases if key.name == wanted.name]
    if rounds and rounds[0] is None:
        return f"`{wanted.name}` comes before the first round: name no round, `--phase {wanted.name}`."
    if rounds and wanted.round_index is not None:
        return f"Its rounds are 0 to {rounds[-1]}; for this one, give `num_rounds={wanted.round_index + 1}`, too."
    if rounds:
        return f"Every round has one: name the round too, e.g. `--phase {wanted.name} --round {rounds[-1]}`."
    return suggest(wanted.name, sorted({key.name for key in phases}))


def num_phases(recipe: Recipe) -> int:
    """Length of the [`schedule`]."""
    return len(early_phases(recipe)) + recipe.num_rounds * len(ROUND_PHASES)


def finished_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """Finished phases of a run, in order."""
    # List the folders instead of checking the schedule, which may have many more rounds than were played.
    early = [key for key in early_phases(recipe) if key.target(folder).exists()]
    found = [(name, k) for name in ROUND_PHASES for k in folder.rounds(_PHASE_FOLDERS[name])]
    in_rounds = [PhaseKey(name, k) for name, k in found if k < recipe.num_rounds]
    return early + sorted(in_rounds, key=lambda key: key.place)


def begun_phases(recipe: Recipe, folder: RunFolder) -> list[PhaseKey]:
    """Phases of a run that have a folder, finished ones first and then unfinished ones."""
    finished = finished_phases(recipe, folder)
    partial = [key for key in early_phases(recipe) if partial_of(key.target(folder)).exists()]
    for name in ROUND_PHASES:
        for path in (folder.root / _PHASE_FOLDERS[name]).glob(".round-*.partial"):
            index = round_index_of(path.name.removeprefix(".").removesuffix(".partial"))
            if index is not None and index < recipe.num_rounds:
                partial.append(PhaseKey(name, index))
    return finished + partial


def unfinished(recipe: Recipe) -> list[PhaseKey]:
    """Phases that are left to play, in order."""
    finished = set(finished_phases(recipe, RunFolder.of(recipe)))
    return [phase for phase in schedule(recipe) if phase not in finished]


def phase_settings(recipe: Recipe, phase: PhaseKey) -> dict[str, Any]:
    """
    Settings that the results of a phase depend on, by `section.key`, with the overrides of its round.

    They are plain values, equal to what JSON gives back.
    """
    order = list(_PHASE_FOLDERS)
    first = {
        key: mark.phase or ("verifier" if key.startswith("verifier.") else "prover")
        for key, mark in marks_of(Recipe, AfterBootstrap)
    }
    later = [key for key, name in first.items() if order.index(name) > order.index(phase.name)]
    of_round = recipe if phase.round_index is None else recipe.for_round(phase.round_index)
    settings = without_keys(of_round.to_dict(), [*marked_keys(Recipe, MayChange), *later, "rounds"])
    return json.loads(json.dumps(leaves(settings)))


def planned_steps(recipe: Recipe, phase: PhaseKey) -> int:
    """Optimiser steps of a phase, if no rule stops it early."""
    if phase.name == "warmup":
        return sum(player.warmup.max_steps for player in (recipe.prover, recipe.verifier) if player.warmup)
    config = recipe if phase.round_index is None else recipe.for_round(phase.round_index)
    if phase.name == "verifier":
        return config.verifier.max_steps
    if phase.name == "prover":
        return config.prover.planned_steps
    return 0


def game_steps(recipe: Recipe, phase: PhaseKey) -> range:
    """Range of a phase on the game's continuous step axis; it does not depend on early stopping."""
    phases = schedule(recipe)
    start = sum(planned_steps(recipe, earlier) for earlier in phases[: phases.index(phase)])
    return range(start, start + planned_steps(recipe, phase))


def partial_of(target: Path) -> Path:
    """Staging folder of a phase, used until it is finished."""
    return target.parent / f".{target.name}.partial"
