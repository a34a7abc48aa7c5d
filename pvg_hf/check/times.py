"""Time of phases: rates that were measured, times tokens."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from huggingface_hub import constants

from pvg_hf.check.graphics_cards import device_name
from pvg_hf.config import Recipe
from pvg_hf.core.files import write_json
from pvg_hf.core.stopwatch import SCORING, UNKNOWN, TimeSplit, read_split
from pvg_hf.models.hardware import Hardware

PILOT = "pilot"  # in place of a phase's name

_NUM_KEPT = 20  # pairs of players whose rates are kept

_OF_PLAYERS = ("model", "revision", "dtype", "scratch", "lora", "quantization")  # settings on which rates depend


@dataclass(frozen=True)
class Measured:
    """Tokens and seconds of a phase that was played."""

    phase: str
    where: str  # e.g. `in round 0 of this run`
    tokens: Mapping[str, float]  # by kind of work, over all processes
    seconds: Mapping[str, float]  # of the same kinds; those of other kinds, such as grading, are spread over them

    @classmethod
    def of(cls, phase: str, where: str, tokens: Mapping[str, float], split: TimeSplit) -> "Measured":
        """Measurement of a phase with a time split; if this has none of the kinds, their seconds are in proportion to tokens."""
        tokens = {kind: number for kind, number in tokens.items() if number}
        spent = {kind: split[kind].seconds for kind in tokens if kind in split} or tokens
        scale = sum(of_kind.seconds for of_kind in split.values()) / (sum(spent.values()) or 1.0)
        return cls(phase, where, tokens, {kind: seconds * scale for kind, seconds in spent.items()})


@dataclass(frozen=True)
class Estimate:
    """Estimated time of a phase, and where its rates were measured."""

    seconds: float
    where: tuple[str, ...]


def estimate_time(phase: str, tokens: Mapping[str, float], measured: Sequence[Measured]) -> Estimate | None:
    """
    Estimate the time of a phase; `None` if a rate that it needs was not measured.

    Rates are those of the first measurement of the same phase, or else of the same player's same work in the phase in which it had
    most of it.
    """
    wanted = {kind: number for kind, number in tokens.items() if number}
    same = next((one for one in measured if one.phase == phase), None)
    if same is None:
        found = {kind: _measured_elsewhere(phase, kind, measured) for kind in wanted}
    else:
        found = {kind: same for kind in wanted if kind in same.seconds}
    chosen = {kind: one for kind, one in found.items() if one is not None}
    if len(chosen) < len(found):
        return None
    seconds = sum(wanted[kind] * one.seconds[kind] / one.tokens[kind] for kind, one in chosen.items())
    return Estimate(seconds, tuple(dict.fromkeys(one.where for one in chosen.values())))


def _measured_elsewhere(phase: str, kind: str, measured: Sequence[Measured]) -> Measured | None:
    others = [one for one in measured if kind in one.seconds and worker(one.phase, kind) == worker(phase, kind)]
    return max(others, key=lambda one: one.tokens[kind], default=None)


def worker(phase: str, kind: str) -> str:
    """Player that does a kind of work in a phase; both of them are trained in a warm-up, in another way than later."""
    if phase == "warmup":
        return phase
    return "verifier" if phase == "verifier" or kind == SCORING else "prover"


def keep_rates(recipe: Recipe, hardware: Hardware, phase: str, split: TimeSplit) -> None:
    """Keep the tokens and seconds of a phase for later plans of games with the same players on this machine, if possible."""
    known, key = _read_rates(), _key(recipe, hardware)
    of_players = known.pop(key, {})
    of_players[phase] = {
        "date": date.today().isoformat(),
        "split": {kind: asdict(spent) for kind, spent in split.items()},
    }
    known[key] = of_players  # the last one is the newest
    try:
        write_json(rates_file(), dict(list(known.items())[-_NUM_KEPT:]))
    except OSError:
        return  # a plan then has the rates of an earlier game, or none


def read_kept_rates(recipe: Recipe, hardware: Hardware) -> list[Measured]:
    """Read what was kept of the last game with the same players on this machine."""
    measured = []
    for phase, kept in _read_rates().get(_key(recipe, hardware), {}).items():
        # That of the main process. A start that was killed has lost its tokens.
        split = {kind: spent for kind, spent in read_split(kept["split"]).items() if kind != UNKNOWN}
        tokens = {kind: spent.tokens * hardware.num_processes for kind, spent in split.items()}
        where = f"{'by a pilot ' if phase == PILOT else ''}on this machine on {kept['date']}"
        measured.append(Measured.of(phase, where, tokens, split))
    return measured


def rates_file() -> Path:
    """File of the rates that were measured on this machine, in the cache of the Hugging Face libraries."""
    return Path(constants.HF_HOME) / "pvg_hf" / "rates.json"


def _read_rates() -> dict[str, dict[str, dict]]:
    try:
        return json.loads(rates_file().read_bytes())
    except (OSError, ValueError):
        return {}


def _key(recipe: Recipe, hardware: Hardware) -> str:
    values = recipe.to_dict()
    players = {name: {key: values[name][key] for key in _OF_PLAYERS} for name in recipe.players}
    return json.dumps([device_name(hardware.device), hardware.num_processes, players], sort_keys=True)
