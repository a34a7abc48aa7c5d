"""The plan of a game: what each phase of its rounds costs, estimated or as recorded in earlier phases of the run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pvg_hf.check.amounts import Amounts, measure_lengths
from pvg_hf.check.costs import Work
from pvg_hf.check.memory_fit import LEARNERS, fit_to_memory
from pvg_hf.check.phase_costs import PHASE_COSTS
from pvg_hf.check.player_sizes import PlayerSize, read_critic_size, read_player_size
from pvg_hf.check.speed import Card, Machine, measure_machine, total_memory
from pvg_hf.config import Recipe
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware
from pvg_hf.run.layout import ROUND_PHASES, PhaseKey, RunFolder, early_phases, finished_phases
from pvg_hf.run.phase_record import read_record


@dataclass(frozen=True)
class RoundPlan:
    """Plan of consecutive rounds with equal settings."""

    indices: range  # the rounds
    early: list[str]  # phases before the first round, if the plan includes round 0
    amounts: Amounts  # counts of one of these rounds
    sizes: dict[str, PlayerSize]  # of each player, and of PPO's `critic`
    machine: Machine  # its speed in the prover's data type and at the prover's width
    card: Card | None = None  # that the plan is for; this machine by default
    recorded: Mapping[str, float] = field(default_factory=dict)  # seconds of phases by name, see `plan_rounds`

    @property
    def memory(self) -> int:
        """Memory in bytes of the card, or of this machine's device."""
        return self.amounts.memory

    @property
    def counts(self) -> Counter[str]:
        """Number of phases of each name in this plan."""
        return Counter(self.early) + Counter(dict.fromkeys(ROUND_PHASES, len(self.indices)))

    def covers(self, key: PhaseKey) -> bool:
        """Whether this plan includes a phase."""
        return key.name in self.early if key.round_index is None else key.round_index in self.indices

    def work(self, phase: str) -> Work:
        """Estimated cost of a phase."""
        return PHASE_COSTS[phase].work(self.amounts, self.sizes)

    def seconds(self, phase: str) -> float:
        """Seconds that a phase takes: recorded, else estimated."""
        return self.recorded[phase] if phase in self.recorded else self.machine.seconds(self.work(phase))


def plan_rounds(recipe: Recipe, problems: GameProblems, card: Card | None = None) -> list[RoundPlan]:
    """
    Plan all rounds of a game, with one plan per group of consecutive equal rounds.

    Without a card, the speed of this machine is measured, and a phase that the run has finished with as many processes takes
    the recorded time: that of the last finished round of the group, or of an earlier one in proportion to its tokens.

    Raises:
        ValueError: if the configuration of a model is neither on this machine nor on the Hub.
        DamagedFileError: if the record of a finished phase is damaged.
    """
    hardware = planned_hardware(recipe, card)
    dtype = hardware.dtype(recipe.prover.dtype, is_precise=False)
    machine = card.machine(dtype) if card else None
    plans = []
    for indices in _equal_rounds(recipe):
        of_round = recipe.for_round(indices[0])
        sizes = _player_sizes(of_round, hardware)
        machine = machine or measure_machine(hardware.device, dtype, sizes["prover"].hidden_size)
        early = [key.name for key in early_phases(recipe)] if indices[0] == 0 else []
        of_problems = problems.for_round(of_round)
        memory = card.num_bytes if card else total_memory(hardware.device)
        amounts = Amounts(of_round, of_problems, hardware, measure_lengths(of_round, of_problems), memory)
        for phase in LEARNERS:
            amounts = replace(amounts, recipe=fit_to_memory(amounts, sizes, phase))
        plans.append(RoundPlan(indices, early, amounts, sizes, machine, card))
    return plans if card else _with_recorded_times(recipe, plans)


def fit_phase(
    recipe: Recipe, problems: GameProblems, hardware: Hardware, phase: str, most: int | None = None
) -> Recipe:
    """
    Resolve what the learner of a phase leaves to `auto`, for this machine; see [`fit_to_memory`].

    Args:
        recipe ([`Recipe`]), problems ([`GameProblems`]):
            Of the round.
        hardware ([`Hardware`]):
            The devices of the game.
        phase (`str`):
            Name of the phase.
        most (`int`, *optional*):
            Maximum rows of the micro-batch.
    """
    if phase not in LEARNERS or not hardware.has_gpu:
        return recipe
    lengths, memory = measure_lengths(recipe, problems), total_memory(hardware.device)
    amounts = Amounts(recipe, problems, hardware, lengths, memory)
    return fit_to_memory(amounts, _player_sizes(recipe, hardware), phase, most=most)


def planned_hardware(recipe: Recipe, card: Card | None) -> Hardware:
    """Hardware that a plan is for: this machine, or one with `card`."""
    if card is None:
        return Hardware.here(recipe.device)
    return Hardware.elsewhere(recipe.device, has_bfloat16=card.has_bfloat16)


def _equal_rounds(recipe: Recipe) -> list[range]:
    """Groups of consecutive rounds with equal settings; a round with overrides is a group by itself."""
    bounds = sorted({0, recipe.num_rounds, *(bound for index in recipe.rounds for bound in (index, index + 1))})
    return [range(*pair) for pair in pairwise(bounds)]


def _player_sizes(recipe: Recipe, hardware: Hardware) -> dict[str, PlayerSize]:
    sizes = {name: read_player_size(config, name, hardware) for name, config in recipe.players.items()}
    if recipe.prover.has_critic:
        sizes["critic"] = read_critic_size(recipe, hardware)
    unknown = [name for name, size in sizes.items() if size is None]
    if unknown:  # the checks before a plan have read it, so that only the connection can have failed since
        raise ValueError(
            f"Cannot read the configuration of the model of: {', '.join(unknown)}. It is not on this machine, and the Hub does not "
            "give it. Plan again when the Hub can be reached, or download the model (`hf download ORG/NAME`)."
        )
    return sizes


def _with_recorded_times(recipe: Recipe, plans: Sequence[RoundPlan]) -> list[RoundPlan]:
    """Add the times of the run's finished phases, for themselves and for later rounds."""
    folder = RunFolder.of(recipe)
    finished = finished_phases(recipe, folder)
    known: dict[str, tuple[float, float]] = {}  # seconds and tokens of the last finished phase of each name
    timed = []
    for plan in plans:
        recorded = {}
        for name in plan.counts:
            tokens = PHASE_COSTS[name].tokens(plan.amounts)
            done = [key for key in finished if key.name == name and plan.covers(key)]
            record = read_record(done[-1].target(folder)) if done else None
            if record is not None and record.num_processes == plan.amounts.num_processes:
                known[name] = record.seconds, tokens
            if name in known:
                seconds, tokens_then = known[name]
                recorded[name] = seconds * (tokens / tokens_then if tokens_then else 1.0)
        timed.append(replace(plan, recorded=recorded))
    return timed
