"""Rates of wrong labels in a round according to a recipe: those of its noise, and those that corrections assume."""

from collections.abc import Iterable

import numpy as np

from pvg_hf.config import Recipe
from pvg_hf.config.noise_section import CheckerConfig, NoiseConfig
from pvg_hf.data.mixture import weights_for
from pvg_hf.noise.channel import routed_channel
from pvg_hf.noise.routing import make_routes
from pvg_hf.tasks.base import Problem

Rates = tuple[float, float]


def label_rates(recipe: Recipe, round_index: int, player: str, problems: Iterable[Problem]) -> Rates:
    """
    Return `(rho0, rho1)` of the labels that a player sees in a round, abstentions excluded.

    Args:
        player: `verifier`, or `prover`, whose reward uses labels.
        problems: The player's problems, which a checker may treat differently.
    Returns: for a checker, the rates of its whole channel, as the mean over the problems. Under a schedule over
        rounds: those of the round, or, for the verifier, the mean over the rounds in its mixture. Under a schedule
        over steps: the rates at factor 1.
    Raises `ValueError` if the labels do not indicate the truth.
    """
    noise = recipe.noise
    if not {"verifier": noise.is_for_verifier, "prover": noise.is_for_prover}[player]:
        return 0.0, 0.0
    if noise.checker is not None:
        rho0, rho1 = np.mean(routed_rates(noise.checker, problems), axis=0)
        return float(rho0), float(rho1)
    # A schedule over steps multiplies these rates in the trainer.
    if noise.schedule is None or noise.schedule.over == "steps":
        return noise.rho0, noise.rho1
    if player == "prover":
        return rates_at(noise, round_index=round_index)
    weights = weights_for(recipe.data, round_index)
    factor = sum(weight * noise.schedule.factor(source + 1) for source, weight in weights.items())
    return factor * noise.rho0, factor * noise.rho1


def stated_rates(recipe: Recipe, round_index: int, player: str, problems: Iterable[Problem]) -> Rates:
    """Return `(rho0, rho1)` that a correction assumes unless they are estimated: from `rates` or [`label_rates`]."""
    if recipe.rates.source == "given":
        return recipe.rates.rho0, recipe.rates.rho1
    return label_rates(recipe, round_index, player, problems)


def is_estimated_for_prover(recipe: Recipe) -> bool:
    """Whether the rates of the labels in the prover's reward are estimated from trusted problems."""
    return recipe.rates.source == "trusted" and recipe.noise.is_any and recipe.noise.is_for_prover


def rates_at(noise: NoiseConfig, *, round_index: int, step: int = 0) -> Rates:
    """Return `(rho0, rho1)` at which labels of a round's solutions flip, at a step of a training."""
    schedule = noise.schedule
    if schedule is None:
        return noise.rho0, noise.rho1
    factor = schedule.factor(step if schedule.over == "steps" else round_index + 1)
    return factor * noise.rho0, factor * noise.rho1


def routed_rates(checker: CheckerConfig, problems: Iterable[Problem]) -> list[Rates]:
    """Return `(rho0, rho1)` of the checker's channel for each problem; without problems, of its default route."""
    routes = make_routes(checker)
    # Problems share few routings, so each channel is computed once.
    known: dict[int, Rates] = {}
    rates = []
    for problem in problems:
        routing, _ = routes.of(problem)
        if id(routing) not in known:
            known[id(routing)] = routed_channel(routing).label_rates
        rates.append(known[id(routing)])
    return rates or [routed_channel(routes.routing).label_rates]
