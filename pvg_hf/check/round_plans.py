"""
The plan of a game: amounts, memory and time of each phase of its rounds. A time is a number of tokens times a measured
rate.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from itertools import pairwise
from pathlib import Path

from huggingface_hub import constants

from pvg_hf.check.graphics_cards import Card, device_name, peak_flops, product_flops, total_memory
from pvg_hf.check.memory_fit import LEARNERS, fit_to_memory
from pvg_hf.check.phase_costs import Amounts, count_tokens, measure_lengths, peak_memory
from pvg_hf.check.player_sizes import PlayerSize, read_sizes
from pvg_hf.config import Recipe
from pvg_hf.config.recipe import list_memory_settings
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.stopwatch import SCORING, TRAINING, UNKNOWN, WRITING, Spent, TimeSplit
from pvg_hf.core.units import show_bytes
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.layout import ROUND_PHASES, PhaseKey, RunFolder, early_phases, finished_phases
from pvg_hf.run.phase_record import read_record

PILOT = "pilot"  # in place of a phase's name

_NUM_KEPT = 20  # pairs of players whose rates are kept

_MIN_SIZE_ON_CPU = 50_000_000  # parameters; with fewer, a processor spends its time on other things than products

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
        """
        Measurement of a phase with a time split; if this has none of the kinds, their seconds are in proportion to
        tokens.
        """
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

    Rates are those of the first measurement of the same phase, or else of the same player's same work in the phase in
    which it had most of it.
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
    others = [one for one in measured if kind in one.seconds and _worker(one.phase, kind) == _worker(phase, kind)]
    return max(others, key=lambda one: one.tokens[kind], default=None)


def _worker(phase: str, kind: str) -> str:
    """Player that does a kind of work in a phase; both of them are trained in a warm-up, in another way than later."""
    if phase == "warmup":
        return phase
    return "verifier" if phase == "verifier" or kind == SCORING else "prover"


@dataclass(frozen=True)
class KeptRates:
    """What a phase of an earlier game has spent."""

    date: str
    split: TimeSplit


def keep_rates(recipe: Recipe, hardware: Hardware, phase: str, split: TimeSplit) -> None:
    """
    Keep the tokens and seconds of a phase for later plans of games with the same players on this machine, if possible.
    """
    known, key = _read_rates(), _key(recipe, hardware)
    of_players = known.pop(key, {})
    of_players[phase] = KeptRates(date.today().isoformat(), split)
    known[key] = of_players  # the last one is the newest
    plain = {key: {phase: asdict(kept) for phase, kept in rates.items()} for key, rates in known.items()}
    try:
        write_json(rates_file(), dict(list(plain.items())[-_NUM_KEPT:]))
    except OSError:
        return  # a plan then has the rates of an earlier game, or none


def read_kept_rates(recipe: Recipe, hardware: Hardware) -> list[Measured]:
    """Read what was kept of the last game with the same players on this machine."""
    measured = []
    for phase, kept in _read_rates().get(_key(recipe, hardware), {}).items():
        # That of the main process. A start that was killed has lost its tokens.
        split = {kind: spent for kind, spent in kept.split.items() if kind != UNKNOWN}
        tokens = {kind: spent.tokens * hardware.num_processes for kind, spent in split.items()}
        where = f"{'by a pilot ' if phase == PILOT else ''}on this machine on {kept.date}"
        measured.append(Measured.of(phase, where, tokens, split))
    return measured


def rates_file() -> Path:
    """File of the rates that were measured on this machine, in the cache of the Hugging Face libraries."""
    return Path(constants.HF_HOME) / "pvg_hf" / "rates.json"


def _read_rates() -> dict[str, dict[str, KeptRates]]:
    try:
        return read_json(rates_file(), dict[str, dict[str, KeptRates]])
    except (OSError, ValueError):
        return {}


def _key(recipe: Recipe, hardware: Hardware) -> str:
    values = recipe.to_dict()
    players = {name: {key: values[name][key] for key in _OF_PLAYERS} for name in recipe.players}
    return json.dumps([device_name(hardware.device), hardware.num_processes, players], sort_keys=True)


@dataclass(frozen=True)
class RoughRates:
    """
    Rates that are assumed where none was measured, in FLOP/s.

    Args:
        source: What they follow from, as the end of a sentence.
    """

    writing: float
    other: float
    source: str

    @classmethod
    def of(cls, peak: float, writing_share: float, other_share: float, name: str) -> "RoughRates":
        """Return the rates as shares of a peak rate."""
        source = f"if {writing_share:.0%} of {name} is reached in writing and {other_share:.0%} in other work"
        return cls(writing_share * peak, other_share * peak, source)


def rough_rates(hardware: Hardware, card: Card | None, num_parameters: int) -> RoughRates | None:
    """
    Assume rates for a card, for this machine's GPU or, with a prover of some size, for its processor, on which
    products of matrices are timed.
    """
    peak = card.half * 1e12 if card else peak_flops(hardware.device)
    if peak is not None:
        return RoughRates.of(peak, 0.02, 0.2, "the card's peak rate")
    if hardware.has_gpu or num_parameters < _MIN_SIZE_ON_CPU:
        return None
    peak = product_flops()
    # benchmarks/processor_rates.py, SmolLM2-135M on an AMD EPYC with AVX2: writing .14 (8 rows) to .36 (64), other
    # work .75 to 1.0; a step of a warm-up reached .6.
    return RoughRates.of(peak, 0.2, 0.6, f"{peak / 1e9:.0f} GFLOP/s, which products of matrices reach here,")


@dataclass(frozen=True)
class RoundPlan:
    """Plan of consecutive rounds with equal settings."""

    indices: range  # the rounds
    early: list[str]  # phases before the first round, if the plan includes round 0
    amounts: Amounts  # counts of one of these rounds
    sizes: dict[str, PlayerSize]  # of each player, and of PPO's `critic`
    card: Card | None = None  # that the plan is for; this machine by default
    times: Mapping[str, Estimate | None] = field(default_factory=dict)  # by phase; `None` if a rate is not known

    @property
    def counts(self) -> Counter[str]:
        """Number of phases of each name in this plan."""
        return Counter(self.early) + Counter(dict.fromkeys(ROUND_PHASES, len(self.indices)))

    def covers(self, key: PhaseKey) -> bool:
        """Whether this plan includes a phase."""
        return key.name in self.early if key.round_index is None else key.round_index in self.indices

    def tokens(self, phase: str) -> dict[str, float]:
        """Tokens of a phase by kind of work."""
        return count_tokens(phase, self.amounts)

    def memory(self, phase: str) -> float:
        """Estimated peak memory of a phase in bytes, for each process."""
        return peak_memory(phase, self.amounts, self.sizes)

    def rough_seconds(self, phase: str, rates: RoughRates) -> float:
        """Seconds of a phase at these rates."""
        seconds = 0.0
        for kind, number in self.tokens(phase).items():
            size = self.sizes["verifier" if _worker(phase, kind) == "verifier" else "prover"]
            flops = size.training_flops if kind == TRAINING else size.forward_flops
            seconds += number * flops / (rates.writing if kind == WRITING else rates.other)
        return seconds / self.amounts.num_processes


def plan_rounds(recipe: Recipe, problems: GameProblems, card: Card | None = None) -> list[RoundPlan]:
    """
    Plan all rounds of a game, with one plan per group of consecutive equal rounds.

    Without a card, times follow from the rates of finished phases of the run with as many processes, and of the last
    game with the same players on this machine.

    Raises `ValueError` if the configuration of a model is neither on this machine nor on the Hub.
    Raises `DamagedFileError` if the record of a finished phase is damaged.
    """
    hardware = planned_hardware(recipe.device, card)
    plans = []
    for indices in _equal_rounds(recipe):
        of_round = recipe.for_round(indices[0])
        sizes = _known_sizes(of_round, hardware)
        early = [key.name for key in early_phases(recipe)] if indices[0] == 0 else []
        of_problems = problems.for_round(of_round)
        memory = card.num_bytes if card else total_memory(hardware.device)
        amounts = Amounts(of_round, of_problems, hardware, measure_lengths(of_round, of_problems), memory)
        for phase in LEARNERS:
            amounts = replace(amounts, recipe=fit_to_memory(amounts, sizes, phase))
        plans.append(RoundPlan(indices, early, amounts, sizes, card))
    return plans if card else _with_times(recipe, plans)


def fit_phase(
    recipe: Recipe, problems: GameProblems, hardware: Hardware, phase: str, most: int | None = None
) -> Recipe:
    """
    Resolve what the learner of a phase leaves to `auto`, for this machine and a round's recipe; see [`fit_to_memory`].
    """
    if phase not in LEARNERS:
        return recipe
    lengths, memory = measure_lengths(recipe, problems), total_memory(hardware.device)
    amounts = Amounts(recipe, problems, hardware, lengths, memory)
    return fit_to_memory(amounts, _known_sizes(recipe, hardware), phase, most=most)


def memory_excess(recipe: Recipe, plans: Sequence[RoundPlan]) -> Iterator[str]:
    """List phases with an estimated peak above the available memory, and what lowers it, one of each name."""
    available, card = plans[0].amounts.memory, plans[0].card
    where = f"`{card.name}`" if card else "this machine"
    first = {name: plan for plan in reversed(plans) for name in plan.counts}
    for name, plan in first.items():
        on_one = 1 if plan.amounts.hardware.has_gpu else plan.amounts.num_processes
        memory = plan.memory(name) * on_one
        if memory > available:
            yield (
                f"the {name} phase is estimated at {show_bytes(memory)}, and {where} has {show_bytes(available)}. In "
                f"order of effect: {list_memory_settings(recipe.for_round(plan.indices[0]), name)}."
            )


def check_memory(recipe: Recipe, problems: GameProblems, hardware: Hardware) -> Iterator[str]:
    """List phases that do not fit in this machine's memory if it has no GPU: it would kill the game after hours."""
    if not hardware.has_gpu:
        for excess in memory_excess(recipe, plan_rounds(recipe, problems)):
            yield f"On a CPU, {excess}"


def planned_hardware(device: str, card: Card | None) -> Hardware:
    """Hardware that a plan is for: this machine, or one with `card`."""
    if card is None:
        return Hardware.here(device)
    return Hardware.elsewhere(device, has_bfloat16=card.has_bfloat16)


def _equal_rounds(recipe: Recipe) -> list[range]:
    """Groups of consecutive rounds with equal settings; a round with overrides is a group by itself."""
    bounds = sorted({0, recipe.num_rounds, *(bound for index in recipe.rounds for bound in (index, index + 1))})
    return [range(*pair) for pair in pairwise(bounds)]


def _known_sizes(recipe: Recipe, hardware: Hardware) -> dict[str, PlayerSize]:
    sizes = read_sizes(recipe, hardware)
    known = {name: size for name, size in sizes.items() if size is not None}
    unknown = [name for name in sizes if name not in known]
    if unknown:  # the checks before a plan have read it, so that only the connection can have failed since
        raise ValueError(
            f"Cannot read the configuration of the model of: {', '.join(unknown)}. It is not on this machine, and the"
            " Hub does not give it. Plan again when the Hub can be reached, or download the model (`hf download"
            " ORG/NAME`)."
        )
    return known


def _with_times(recipe: Recipe, plans: Sequence[RoundPlan]) -> list[RoundPlan]:
    """Add the times of phases; a finished phase takes the time that it took."""
    folder = RunFolder.of(recipe)
    finished = finished_phases(recipe, folder)
    played = [list(_measured_phases(plan, folder, [key for key in finished if plan.covers(key)])) for plan in plans]
    of_run = [one for in_plan in reversed(played) for one in in_plan]
    kept = read_kept_rates(recipe, plans[0].amounts.hardware)
    timed = []
    for plan, in_plan in zip(plans, played, strict=True):
        measured = [*in_plan, *of_run, *kept]  # a plan's own phases come first, then the newest
        times = {name: estimate_time(name, plan.tokens(name), measured) for name in plan.counts}
        timed.append(replace(plan, times=times))
    return timed


def _measured_phases(plan: RoundPlan, folder: RunFolder, finished: Sequence[PhaseKey]) -> Iterator[Measured]:
    """
    Yield measurements of the last finished phase of each name in a plan, with the planned tokens.

    So later rounds are expected to differ from their plan, e.g. by stopping early, as this phase did.
    """
    for key in {key.name: key for key in finished}.values():
        record = read_record(key.target(folder))
        if record is not None and record.num_processes == plan.amounts.num_processes:
            split = record.split or {UNKNOWN: Spent(record.seconds)}
            where = (
                "before round 0 of this run" if key.round_index is None else f"in round {key.round_index} of this run"
            )
            yield Measured.of(key.name, where, plan.tokens(key.name), split)
