"""Rates of wrong labels that a phase's corrections assume: stated in the recipe, or estimated."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from transformers import TrainerCallback

from pvg_hf.config import Recipe
from pvg_hf.config.noise_section import NoiseConfig
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.core.seeding import derive_uniform
from pvg_hf.data.label_rates import Rates, is_estimated_for_prover, rates_at, stated_rates
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.pairs.choose import read_candidates
from pvg_hf.game.context import PhaseContext
from pvg_hf.noise.estimation import NoiseEstimate, rates_from_trusted
from pvg_hf.rewards.correction_audit import audit_prover
from pvg_hf.run.layout import RunFolder

logger = logging.getLogger(__name__)


class NoiseScheduleCallback(TrainerCallback):
    """
    Sets a trainer's noise rates in each step by a schedule.

    With `sets_injected`, these are the rates at which the trainer flips labels, as a verifier's trainer does without
    soft labels; with `sets_assumed`, those that the correction assumes.
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


class AssumedRates(NamedTuple):
    """Rates that a correction assumes."""

    rates: Rates  # (rho0, rho1): incorrect solutions that are labelled correct, and correct ones labelled incorrect
    figures: dict[str, float]  # estimates with intervals for the metrics; empty if the recipe states the rates
    line: str  # for the phase's log line; empty if the recipe states the rates


def assumed_rates(context: PhaseContext, player: str) -> AssumedRates:
    """
    Rates that the correction of a player, `verifier` or `prover`, assumes; an estimate is recorded as an event.

    The estimate is from the pool's labels, whose rates are those of the labels in the prover's reward if the noise
    applies to both players.
    """
    recipe = context.recipe
    if player == "verifier":
        is_estimated = recipe.rates.source == "trusted" and recipe.verifier.correction != "none"
    else:
        is_estimated = is_estimated_for_prover(recipe) and recipe.prover.reward_correction != "none"
    if not is_estimated:
        return AssumedRates(stated_rates(recipe, context.round_index, player, context.problems.parts[player]), {}, "")
    estimate = _estimate_rates(recipe, context.round_index, context.folder)
    named = {"rho0": estimate.rho0, "rho1": estimate.rho1}
    figures = {f"{name}/{key}": value for name, rate in named.items() for key, value in rate.to_dict().items()}
    context.event("rates_estimated", source="trusted", **figures)
    line = ", ".join(f"{name} {rate:.3f}" for name, rate in named.items())
    logger.info("%s: estimated rates of wrong labels: %s", context.phase, line)
    figures = {f"{player}/rates/{key}": value for key, value in figures.items()}
    return AssumedRates(estimate.rates, figures, f"estimated {line}; ")


def _estimate_rates(recipe: Recipe, round_index: int, folder: RunFolder) -> NoiseEstimate:
    """
    Estimate rates from the trusted problems' distinct solutions in the round's mixture, without failed or unlabelled
    ones.
    """
    weights = weights_for(recipe.data, round_index)
    candidates = read_candidates(
        folder.training_pools(round_index),
        parts=("verifier",),
        rounds=[source for source, weight in weights.items() if weight > 0],
    )
    share = recipe.rates.trusted_share
    trusted = [derive_uniform(recipe.seed, "trusted", name) < share for name in candidates.problem_ids]
    rows = [row for row in candidates.rows if trusted[row["problem"]]]
    try:
        return rates_from_trusted([row["label"] for row in rows], [row["correct"] for row in rows])
    except ValueError as err:
        raise ValueError(
            f"The rates of wrong labels cannot be estimated from {sum(trusted)} trusted problems: {err} Raise "
            "`rates.trusted_share`, or state them (`rates.source: given`)."
        ) from err


def report_prover_correction(config: ProverConfig, assumed: AssumedRates, event: Callable[..., None]) -> str:
    """Record the audit of the reward correction as an event, and return a short text for the phase's log line."""
    if config.reward_correction == "none":
        return ""
    audit, (rho0, rho1) = audit_prover(config, assumed.rates), assumed.rates
    figures = {"verdict": audit.verdict, "reason": audit.reason, "factor": audit.factor, "rho0": rho0, "rho1": rho1}
    event("reward_correction", reward=config.reward, **figures)
    verdict = "a mere rescaling" if audit.verdict == "rescaling" else audit.verdict
    logger.info("The reward's correction is %s. %s", verdict, audit.reason)
    return f"{assumed.line}reward correction: {verdict}; "
