"""Rates of wrong labels: those that a recipe's noise causes, and those that corrections assume."""

import logging
from functools import partial
from typing import NamedTuple

import numpy as np
from transformers import TrainerCallback

from pvg_hf.config import Recipe
from pvg_hf.config.noise import NoiseConfig, ScheduleConfig
from pvg_hf.core.seeding import derive_uniform
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.pairs.candidates import read_candidates
from pvg_hf.game.checks import make_routes
from pvg_hf.game.context import PhaseContext
from pvg_hf.noise.channel import routed_channel
from pvg_hf.noise.estimation import NoiseEstimate, rates_from_trusted
from pvg_hf.noise.rates import RateSchedule
from pvg_hf.rewards import CorrectionAudit, audit_noise_correction, load_reward

logger = logging.getLogger(__name__)

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


def stated_rates(context: PhaseContext, player: str) -> tuple[float, float]:
    """`(rho0, rho1)` as a recipe states them for a round, by `rates` or by its noise (see [`label_rates`])."""
    rates = context.recipe.rates
    return (rates.rho0, rates.rho1) if rates.source == "given" else label_rates(context, player)


class AssumedRates(NamedTuple):
    """
    Args:
        rates (`tuple[float, float]`):
            `(rho0, rho1)`.
        figures (`dict[str, float]`):
            For the metrics: an estimate with its intervals; empty where the recipe states the rates.
        line (`str`):
            A few words for the phase's line, likewise.
    """

    rates: tuple[float, float]
    figures: dict[str, float]
    line: str


def verifier_rates(context: PhaseContext) -> AssumedRates:
    """What the verifier's correction assumes; an estimate is told as an event."""
    if context.recipe.rates.source != "trusted" or context.recipe.verifier.correction == "none":
        return AssumedRates(stated_rates(context, "verifier"), {}, "")
    return _report_estimate(context, "verifier")


def prover_rates(context: PhaseContext) -> AssumedRates:
    """
    What the prover's correction assumes, likewise. An estimate is that of the pool's labels, which the prover's reward is
    told at the same rates where the noise is both players'; of noise that is the verifier's alone, it is told none.
    """
    if context.recipe.prover.reward_correction == "none" or not is_estimated_for_prover(context.recipe):
        return AssumedRates(stated_rates(context, "prover"), {}, "")
    return _report_estimate(context, "prover")


def is_estimated_for_prover(recipe: Recipe) -> bool:
    """Whether trusted problems are to tell the rates of the labels that the prover's reward reads."""
    return recipe.rates.source == "trusted" and recipe.noise.is_any and recipe.noise.is_for_prover


def _report_estimate(context: PhaseContext, player: str) -> AssumedRates:
    estimate = _estimate(context)
    named = {"rho0": estimate.rho0, "rho1": estimate.rho1}
    figures = {f"{name}/{key}": value for name, rate in named.items() for key, value in rate._asdict().items()}
    context.event("rates_estimated", source="trusted", **figures)
    line = ", ".join(f"{name} {rate}" for name, rate in named.items())
    logger.info("%s: estimated rates of wrong labels: %s", context.phase, line)
    figures = {f"{player}/rates/{key}": value for key, value in figures.items()}
    return AssumedRates(estimate.rates, figures, f"estimated {line}; ")


def _estimate(context: PhaseContext) -> NoiseEstimate:
    """From the trusted problems' solutions in the round's mixture, each text once, failed and unlabelled ones left out."""
    data = context.recipe.data
    weights = mixture_weights(data.mixture, context.round_index, window=data.window, custom=data.weights)
    candidates = read_candidates(
        context.folder.training_pools(context.round_index),
        parts=("verifier",),
        rounds=[source for source, weight in weights.items() if weight > 0],
    )
    share = context.recipe.rates.trusted_share
    trusted = [derive_uniform(context.recipe.seed, "trusted", name) < share for name in candidates.problem_ids]
    rows = [row for row in candidates.rows if trusted[row["problem"]]]
    try:
        return rates_from_trusted([row["label"] for row in rows], [row["correct"] for row in rows])
    except ValueError as err:
        raise ValueError(
            f"The rates of wrong labels cannot be estimated from {sum(trusted)} trusted problems: {err} Raise "
            "`rates.trusted_share`, or state them (`rates.source: given`)."
        ) from err


def audit_prover_correction(context: PhaseContext, rates: tuple[float, float] | None = None) -> CorrectionAudit:
    """What `prover.reward_correction` does to what the prover learns, see [`audit_noise_correction`]; at stated rates."""
    prover = context.recipe.prover
    rho0, rho1 = stated_rates(context, "prover") if rates is None else rates
    return audit_noise_correction(
        partial(load_reward(prover.reward), **prover.reward_options),
        rho0,
        rho1,
        group_size=prover.num_generations,
        scale_rewards=prover.scale_rewards,
    )


def report_prover_correction(context: PhaseContext, assumed: AssumedRates) -> str:
    """Tell the audit of the phase's reward as an event; a few words on it for the phase's line, none without correction."""
    recipe = context.recipe
    if recipe.prover.reward_correction == "none":
        return ""
    audit, (rho0, rho1) = audit_prover_correction(context, assumed.rates), assumed.rates
    figures = {"verdict": audit.verdict, "reason": audit.reason, "factor": audit.factor, "rho0": rho0, "rho1": rho1}
    context.event("reward_correction", reward=recipe.prover.reward, **figures)
    logger.info("%s: the reward's correction is %s. %s", context.phase, _shown(audit), audit.reason)
    return f"{assumed.line}reward correction: {_shown(audit)}; "


def _shown(audit: CorrectionAudit) -> str:
    return {"real": "real", "rescaling": "a mere rescaling", "nothing": "nothing"}[audit.verdict]
