"""The estimates of a game's rounds; those that are alike share one."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from pvg_hf.config import Recipe
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.amounts import Amounts
from pvg_hf.game.plan.cards import Card
from pvg_hf.game.plan.checks import phase_context
from pvg_hf.game.plan.costs import Work
from pvg_hf.game.plan.critic import read_critic_size
from pvg_hf.game.plan.lengths import measure_lengths
from pvg_hf.game.plan.machine import Machine, measure_machine, total_memory
from pvg_hf.game.plan.phases import Player, estimate_work, needed_players
from pvg_hf.game.plan.players import PlayerSize, read_player_size
from pvg_hf.game.schedule import ROUND_PHASES, PhaseKey, early_phases
from pvg_hf.game.world import World

PLAYERS = ("prover", "verifier")


@dataclass(frozen=True)
class RoundPlan:
    """
    Args:
        indices (`range`):
            Consecutive rounds that are played with the same settings.
        early (`list[str]`):
            The phases before the first round, for the plan that holds round 0.
        amounts ([`Amounts`]):
            What such a round writes and trains on.
        sizes (`dict[str, PlayerSize | None]`):
            Of each player, and of PPO's `critic`; `None` where its configuration is not on this machine.
        players (`dict[str, Player]`):
            Those whose size is known, with the machine's speed.
        card ([`Card`], *optional*):
            The graphics card that the plan is for; this machine by default.
    """

    indices: range
    early: list[str]
    amounts: Amounts
    sizes: dict[str, PlayerSize | None]
    players: dict[str, Player]
    card: Card | None = None

    @property
    def memory(self) -> int:
        """Bytes of the card or, without one, of this machine's device."""
        return self.card.num_bytes if self.card else total_memory(self.amounts.context.processes.device)

    @property
    def counts(self) -> Counter[str]:
        """How many phases of each name this plan stands for."""
        return Counter(self.early) + Counter(dict.fromkeys(ROUND_PHASES, len(self.indices)))

    def covers(self, key: PhaseKey) -> bool:
        """Whether a phase is one of these."""
        return key.name in self.early if key.round_index is None else key.round_index in self.indices

    def work(self, phase: str) -> Work | None:
        """Time and memory of a phase; `None` if a player that it needs is of unknown size."""
        if any(name not in self.players for name in needed_players(self.amounts, phase)):
            return None
        return estimate_work(self.amounts, self.players, phase)


def plan_rounds(recipe: Recipe, world: World, card: Card | None = None) -> list[RoundPlan]:
    """
    A plan for each run of rounds that are alike. Without a card this machine is measured, once per width and type of
    weights.
    """
    machines: dict[tuple[int, str], Machine] = {}
    return [_plan(recipe, world, indices, machines, card) for indices in _alike(recipe)]


def _alike(recipe: Recipe) -> list[range]:
    """Rounds with overrides stand alone."""
    bounds = sorted({0, recipe.num_rounds, *(bound for index in recipe.rounds for bound in (index, index + 1))})
    return [range(*pair) for pair in pairwise(bounds)]


def _plan(
    recipe: Recipe, world: World, indices: range, machines: dict[tuple[int, str], Machine], card: Card | None
) -> RoundPlan:
    context = phase_context(recipe.for_round(indices[0]), PhaseKey("prover", indices[0]), world)
    context = replace(context, planned_bfloat16=card.has_bfloat16 if card else None)
    sizes = {name: read_player_size(context, name) for name in PLAYERS}
    if context.recipe.prover.algorithm == "ppo":
        sizes["critic"] = read_critic_size(context)
    players = {
        name: Player(size, _speed(context, name, size.hidden_size, machines, card))
        for name, size in sizes.items()
        if size is not None
    }
    early = [key.name for key in early_phases(recipe)] if indices[0] == 0 else []
    return RoundPlan(indices, early, Amounts(context, measure_lengths(context)), sizes, players, card)


def _speed(
    context: PhaseContext, name: str, width: int, machines: dict[tuple[int, str], Machine], card: Card | None
) -> Machine:
    dtype = torch.float32 if name == "critic" else context.dtype(name, is_precise=False)
    if card is not None:
        return card.machine(dtype)
    key = (width, str(dtype))
    if key not in machines:
        machines[key] = measure_machine(context.processes.device, dtype, width)
    return machines[key]
