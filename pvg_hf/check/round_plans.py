"""The plan of a game: amounts, memory and time of each phase of its rounds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pvg_hf.check.amounts import Amounts, measure_lengths
from pvg_hf.check.graphics_cards import Card, total_memory
from pvg_hf.check.memory_fit import LEARNERS, fit_to_memory
from pvg_hf.check.phase_costs import count_tokens, peak_memory
from pvg_hf.check.player_sizes import PlayerSize, read_sizes
from pvg_hf.check.times import Estimate, Measured, estimate_time, read_kept_rates, worker
from pvg_hf.config import Recipe
from pvg_hf.core.stopwatch import TRAINING, UNKNOWN, WRITING, Spent, read_split
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.layout import ROUND_PHASES, PhaseKey, RunFolder, early_phases, finished_phases
from pvg_hf.run.phase_record import read_record

# Shares of a card's peak rate that writing and other work are assumed to reach if no rate was measured.
WRITING_SHARE, OTHER_SHARE = 0.02, 0.2


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

    def rough_seconds(self, phase: str, peak_flops: float) -> float:
        """Seconds of a phase on cards with this peak rate."""
        seconds = 0.0
        for kind, number in self.tokens(phase).items():
            size = self.sizes["verifier" if worker(phase, kind) == "verifier" else "prover"]
            flops = size.training_flops if kind == TRAINING else size.forward_flops
            seconds += number * flops / ((WRITING_SHARE if kind == WRITING else OTHER_SHARE) * peak_flops)
        return seconds / self.amounts.num_processes


def plan_rounds(recipe: Recipe, problems: GameProblems, card: Card | None = None) -> list[RoundPlan]:
    """
    Plan all rounds of a game, with one plan per group of consecutive equal rounds.

    Without a card, times follow from the rates of finished phases of the run with as many processes, and of the last game with the
    same players on this machine.

    Raises `ValueError` if the configuration of a model is neither on this machine nor on the Hub.
    Raises `DamagedFileError` if the record of a finished phase is damaged.
    """
    hardware = planned_hardware(recipe, card)
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
    """Resolve what the learner of a phase leaves to `auto`, for this machine and a round's recipe; see [`fit_to_memory`]."""
    if phase not in LEARNERS or not hardware.has_gpu:
        return recipe
    lengths, memory = measure_lengths(recipe, problems), total_memory(hardware.device)
    amounts = Amounts(recipe, problems, hardware, lengths, memory)
    return fit_to_memory(amounts, _known_sizes(recipe, hardware), phase, most=most)


def planned_hardware(recipe: Recipe, card: Card | None) -> Hardware:
    """Hardware that a plan is for: this machine, or one with `card`."""
    if card is None:
        return Hardware.here(recipe.device)
    return Hardware.elsewhere(recipe.device, has_bfloat16=card.has_bfloat16)


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
            f"Cannot read the configuration of the model of: {', '.join(unknown)}. It is not on this machine, and the Hub does not "
            "give it. Plan again when the Hub can be reached, or download the model (`hf download ORG/NAME`)."
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
            split = read_split(record.split) or {UNKNOWN: Spent(record.seconds)}
            where = (
                "before round 0 of this run" if key.round_index is None else f"in round {key.round_index} of this run"
            )
            yield Measured.of(key.name, where, plan.tokens(key.name), split)
