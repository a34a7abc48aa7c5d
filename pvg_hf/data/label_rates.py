"""Rates of wrong labels that a recipe states for a round: those that its noise causes, and those that corrections assume."""

from collections.abc import Iterable

import numpy as np

from pvg_hf.config import Recipe
from pvg_hf.config.noise import CheckerConfig, NoiseConfig, RateSchedule
from pvg_hf.config.sections import DataConfig
from pvg_hf.data.mixture import weights_for
from pvg_hf.noise.channel import routed_channel
from pvg_hf.noise.routing import make_routes
from pvg_hf.noise.verdicts import Problem

Rates = tuple[float, float]


def label_rates(recipe: Recipe, round_index: int, player: str, problems: Iterable[Problem]) -> Rates:
    """
    `(rho0, rho1)` of the labels that a player sees in a round, abstentions left out.

    Args:
        recipe ([`Recipe`]):
            With the round's overrides.
        round_index (`int`):
            The round, from 0.
        player (`str`):
            `verifier`, or `prover`, whose reward reads labels.
        problems (`Iterable[Mapping]`):
            The player's, which a checker may treat differently.

    Returns:
        `tuple[float, float]`: of a checker, those of its channel from end to end, as the mean over the problems; under a
        schedule over rounds, those of the round, and for the verifier the mean over the rounds in its mixture; under one over
        steps, the rates at its factor 1.

    Raises:
        ValueError: if the labels do not point to the truth.
    """
    noise = recipe.noise
    if not {"verifier": noise.is_for_verifier, "prover": noise.is_for_prover}[player]:
        return 0.0, 0.0
    if noise.checker is not None:
        rho0, rho1 = np.mean(routed_rates(noise.checker, problems), axis=0)
        return float(rho0), float(rho1)
    if noise.schedule is None or noise.schedule.over == "steps":
        return noise.rho0, noise.rho1
    if player == "prover":
        return rates_at(noise, round_index=round_index)
    factor = _mean_factor(noise.schedule, recipe.data, round_index)
    return factor * noise.rho0, factor * noise.rho1


def stated_rates(recipe: Recipe, round_index: int, player: str, problems: Iterable[Problem]) -> Rates:
    """`(rho0, rho1)` that a player's correction assumes unless they are estimated: by `rates`, or see [`label_rates`]."""
    rates = recipe.rates
    if rates.source == "given":
        return rates.rho0, rates.rho1
    return label_rates(recipe, round_index, player, problems)


def is_estimated_for_prover(recipe: Recipe) -> bool:
    """Whether the rates of the labels that the prover's reward reads are estimated from trusted problems."""
    return recipe.rates.source == "trusted" and recipe.noise.is_any and recipe.noise.is_for_prover


def rates_at(noise: NoiseConfig, *, round_index: int, step: int = 0) -> Rates:
    """`(rho0, rho1)` by which the labels of solutions of a round flip, and at a step of a training."""
    schedule = noise.schedule
    if schedule is None:
        return noise.rho0, noise.rho1
    factor = schedule.factor(step if schedule.over == "steps" else round_index + 1)
    return factor * noise.rho0, factor * noise.rho1


def _mean_factor(schedule: RateSchedule, data: DataConfig, round_index: int) -> float:
    return sum(weight * schedule.factor(source + 1) for source, weight in weights_for(data, round_index).items())


def routed_rates(checker: CheckerConfig, problems: Iterable[Problem]) -> list[Rates]:
    """`(rho0, rho1)` of the checker's channel for each problem; without problems, those of its own route alone."""
    routes = make_routes(checker)
    known: dict[int, Rates] = {}
    rates = []
    for problem in problems:
        routing, _ = routes.of(problem)
        if id(routing) not in known:
            known[id(routing)] = routed_channel(routing).label_rates
        rates.append(known[id(routing)])
    return rates or [routed_channel(routes.routing).label_rates]
