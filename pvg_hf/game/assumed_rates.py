"""The rates of wrong labels that a player's correction assumes, and what the prover's correction comes to."""

import logging
from functools import partial
from typing import NamedTuple

from pvg_hf.config import Recipe
from pvg_hf.data.candidates import read_candidates
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.label_rates import label_rates
from pvg_hf.noise.estimation import NoiseEstimate, rates_from_trusted
from pvg_hf.rewards import CorrectionAudit, audit_noise_correction, load_reward
from pvg_hf.seeding import derive_uniform

logger = logging.getLogger(__name__)


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
    return _estimated(context, "verifier")


def prover_rates(context: PhaseContext) -> AssumedRates:
    """
    What the prover's correction assumes, likewise. An estimate is that of the pool's labels, which the prover's reward is
    told at the same rates where the noise is both players'; of noise that is the verifier's alone, it is told none.
    """
    if context.recipe.prover.reward_correction == "none" or not is_estimated_for_prover(context.recipe):
        return AssumedRates(stated_rates(context, "prover"), {}, "")
    return _estimated(context, "prover")


def is_estimated_for_prover(recipe: Recipe) -> bool:
    """Whether trusted problems are to tell the rates of the labels that the prover's reward reads."""
    return recipe.rates.source == "trusted" and recipe.noise.is_any and recipe.noise.is_for_prover


def _estimated(context: PhaseContext, player: str) -> AssumedRates:
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


def tell_prover_correction(context: PhaseContext, assumed: AssumedRates) -> str:
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
