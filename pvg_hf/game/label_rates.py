"""How often the labels that a player is told are wrong: what corrections are given."""

import numpy as np
from transformers import TrainerCallback

from pvg_hf.config.noise import NoiseConfig, ScheduleConfig
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.game.checking import make_routes
from pvg_hf.game.context import PhaseContext
from pvg_hf.noise.channel import routed_channel
from pvg_hf.noise.schedules import RateSchedule

Rates = tuple[float, float]


def label_rates(context: PhaseContext, player: str = "verifier") -> Rates:
    """
    `(rho0, rho1)` of the labels that a player is told in a round, abstentions left out.

    Args:
        context ([`PhaseContext`]):
            A phase of the round.
        player (`str`):
            `verifier`, or `prover`, whose reward reads labels.

    Returns:
        `tuple[float, float]`: of a checker, those of its channel from end to end, as the mean over the player's problems;
        under a schedule over rounds, those of the round, and for the verifier the mean over the rounds in its mixture; under
        one over steps, the rates at its factor 1.

    Raises:
        ValueError: if the labels do not point to the truth.
    """
    noise = context.recipe.noise
    if not {"verifier": noise.is_for_verifier, "prover": noise.is_for_prover}[player]:
        return 0.0, 0.0
    if noise.checker is not None:
        return _checker_rates(context, player)
    if noise.schedule is None or noise.schedule.over == "steps":
        return noise.rho0, noise.rho1
    if player == "prover":
        return rates_at(noise, round_index=context.round_index)
    factor = _mean_factor(context)
    return factor * noise.rho0, factor * noise.rho1


def rates_at(noise: NoiseConfig, *, round_index: int, step: int = 0) -> Rates:
    """`(rho0, rho1)` by which the labels of solutions of a round flip, and at a step of a training."""
    schedule = noise.schedule
    if schedule is None:
        return noise.rho0, noise.rho1
    factor = make_schedule(schedule).factor(step if schedule.over == "steps" else round_index + 1)
    return factor * noise.rho0, factor * noise.rho1


def make_schedule(config: ScheduleConfig) -> RateSchedule:
    return RateSchedule(
        **{name: value for name, value in vars(config).items() if name in RateSchedule.__annotations__}
    )


def _mean_factor(context: PhaseContext) -> float:
    data, schedule = context.recipe.data, make_schedule(context.recipe.noise.schedule)
    weights = mixture_weights(data.mixture, context.round_index, window=data.window, custom=data.weights)
    return sum(weight * schedule.factor(source + 1) for source, weight in weights.items())


def _checker_rates(context: PhaseContext, player: str) -> Rates:
    rho0, rho1 = np.mean(routed_rates(context, player), axis=0)
    return float(rho0), float(rho1)


def routed_rates(context: PhaseContext, player: str) -> list[Rates]:
    """`(rho0, rho1)` of the checker's channel for each of a player's problems; without problems, that of no slice alone."""
    routes = make_routes(context.recipe.noise.checker)
    if context.world is None:
        return [routed_channel(routes.routing).label_rates]
    known: dict[int, Rates] = {}
    rates = []
    for problem in context.world.parts[player]:
        routing, _ = routes.of(problem)
        if id(routing) not in known:
            known[id(routing)] = routed_channel(routing).label_rates
        rates.append(known[id(routing)])
    return rates


class NoiseScheduleCallback(TrainerCallback):
    """
    Sets the rates of a trainer for each step.

    Args:
        noise ([`~pvg_hf.config.noise.NoiseConfig`]):
            With a schedule over steps.
        sets_injected (`bool`):
            Whether the trainer flips labels at them, as a verifier's does without soft labels.
        sets_assumed (`bool`):
            Whether the correction assumes them.
    """

    def __init__(self, noise: NoiseConfig, *, sets_injected: bool, sets_assumed: bool):
        self.noise = noise
        self.sets_injected = sets_injected
        self.sets_assumed = sets_assumed

    def on_step_begin(self, args, state, control, **kwargs):
        rates = rates_at(self.noise, round_index=0, step=state.global_step)
        if self.sets_injected:
            args.noise_rho0, args.noise_rho1 = rates
        if self.sets_assumed:
            args.rho0, args.rho1 = rates
