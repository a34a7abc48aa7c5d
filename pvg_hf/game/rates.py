"""Rates of wrong labels that the corrections of a phase assume, stated or estimated."""

import logging
from typing import NamedTuple

from transformers import TrainerCallback

from pvg_hf.config.noise import NoiseConfig
from pvg_hf.core.seeding import derive_uniform
from pvg_hf.data.label_rates import Rates, is_estimated_for_prover, rates_at, stated_rates
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.pairs.candidates import read_candidates
from pvg_hf.game.context import PhaseContext
from pvg_hf.noise.estimation import NoiseEstimate, rates_from_trusted
from pvg_hf.rewards.audit import CorrectionAudit, audit_prover

logger = logging.getLogger(__name__)


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

    rates: Rates
    figures: dict[str, float]
    line: str


def verifier_rates(context: PhaseContext) -> AssumedRates:
    """What the verifier's correction assumes; an estimate is told as an event."""
    if context.recipe.rates.source != "trusted" or context.recipe.verifier.correction == "none":
        return _stated(context, "verifier")
    return _report_estimate(context, "verifier")


def prover_rates(context: PhaseContext) -> AssumedRates:
    """
    What the prover's correction assumes, likewise. An estimate is that of the pool's labels, which the prover's reward is
    told at the same rates where the noise is both players'; of noise that is the verifier's alone, it is told none.
    """
    if context.recipe.prover.reward_correction == "none" or not is_estimated_for_prover(context.recipe):
        return _stated(context, "prover")
    return _report_estimate(context, "prover")


def _stated(context: PhaseContext, player: str) -> AssumedRates:
    problems = context.problems.parts[player]
    return AssumedRates(stated_rates(context.recipe, context.round_index, player, problems), {}, "")


def _report_estimate(context: PhaseContext, player: str) -> AssumedRates:
    estimate = _estimate(context)
    named = {"rho0": estimate.rho0, "rho1": estimate.rho1}
    figures = {f"{name}/{key}": value for name, rate in named.items() for key, value in rate.to_dict().items()}
    context.event("rates_estimated", source="trusted", **figures)
    line = ", ".join(f"{name} {rate:.3f}" for name, rate in named.items())
    logger.info("%s: estimated rates of wrong labels: %s", context.phase, line)
    figures = {f"{player}/rates/{key}": value for key, value in figures.items()}
    return AssumedRates(estimate.rates, figures, f"estimated {line}; ")


def _estimate(context: PhaseContext) -> NoiseEstimate:
    """From the trusted problems' solutions in the round's mixture, each text once, failed and unlabelled ones left out."""
    weights = weights_for(context.recipe.data, context.round_index)
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


def report_prover_correction(context: PhaseContext, assumed: AssumedRates) -> str:
    """Tell the audit of the phase's reward as an event; a few words on it for the phase's line, none without correction."""
    recipe = context.recipe
    if recipe.prover.reward_correction == "none":
        return ""
    audit, (rho0, rho1) = audit_prover(recipe.prover, assumed.rates), assumed.rates
    figures = {"verdict": audit.verdict, "reason": audit.reason, "factor": audit.factor, "rho0": rho0, "rho1": rho1}
    context.event("reward_correction", reward=recipe.prover.reward, **figures)
    logger.info("%s: the reward's correction is %s. %s", context.phase, _describe_verdict(audit), audit.reason)
    return f"{assumed.line}reward correction: {_describe_verdict(audit)}; "


def _describe_verdict(audit: CorrectionAudit) -> str:
    return {"real": "real", "rescaling": "a mere rescaling", "nothing": "nothing"}[audit.verdict]
