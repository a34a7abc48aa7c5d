"""Whether a recipe's corrections and its invariance can be what they say, as far as the recipe tells."""

from collections.abc import Iterator
from functools import partial

from pvg_hf.config import Recipe
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.pairs import check_pair_choice
from pvg_hf.data.schema import BASE_ROUND
from pvg_hf.game.assumed_rates import audit_prover_correction, is_estimated_for_prover, stated_rates
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.roles import GAME_ROLES
from pvg_hf.trainers.balanced_sampler import check_batch
from pvg_hf.trainers.invariance import read_method


def check_corrections(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `data.pairs`, `rates` and the players' corrections."""
    recipe = context.recipe
    data, noise = recipe.data, recipe.noise
    yield from refusals("`data`", partial(check_pair_choice, data.pairs, data.pair_share, data.correct_source))
    is_pool_clean = noise.flips_in_training
    if recipe.rates.source == "trusted" and is_pool_clean:
        yield (
            f"`rates.source` is `trusted`, but with `noise.level: {noise.level}` and `noise.resample: {noise.resample}` the "
            "pool's labels are clean and flipped in training only, where no estimate sees them: take `source: noise`."
        )
    is_noisy = any(stated_rates(context, "verifier")) or recipe.rates.source == "trusted"
    if is_noisy and not is_pool_clean:
        yield from _check_choice(recipe)
    yield from _check_rates(recipe)
    if recipe.prover.reward_correction != "none":
        yield from [] if is_pool_clean else _check_estimate_for_prover(recipe)
        yield from refusals("`prover.reward_correction`", partial(audit_prover_correction, context))


def _check_rates(recipe: Recipe) -> Iterator[str]:
    """Corrections whose rates nothing states; a rate of 0 that is stated, as in a sweep, is taken at its word."""
    noise, rates = recipe.noise, recipe.rates
    if rates.source == "given":
        has_rates = dict.fromkeys(("verifier", "prover"), rates.rho0 + rates.rho1 > 0)
    else:
        is_stated = noise.is_any or noise.epsilon is not None
        has_rates = {"verifier": is_stated and noise.is_for_verifier, "prover": is_stated and noise.is_for_prover}
    has_rates["verifier"] |= rates.source == "trusted"
    corrections = {
        "verifier": ("verifier.correction", recipe.verifier.correction),
        "prover": ("prover.reward_correction", recipe.prover.reward_correction),
    }
    for player, (key, correction) in corrections.items():
        if correction != "none" and not has_rates[player]:
            yield (
                f"`{key}` is `{correction}`, but the labels that the {player} sees have no noise, so that it would change nothing. "
                "State the noise (`noise`), or the rates to assume (`rates: {source: given, rho0: ..., rho1: ...}`), or leave "
                "the correction out."
            )


def _check_estimate_for_prover(recipe: Recipe) -> Iterator[str]:
    """Whether the pool's labels tell the rates of those that the prover's reward reads."""
    noise = recipe.noise
    if not is_estimated_for_prover(recipe) or (noise.is_for_verifier and noise.schedule is None):
        return
    why = "their rates are those of earlier rounds" if noise.is_for_verifier else "they are clean"
    setting = "`noise.schedule`" if noise.is_for_verifier else f"`noise.applies_to: {noise.applies_to}`"
    yield (
        f"`rates.source` is `trusted`, which estimates the rates from the pool's labels, but with {setting} {why}, and no "
        "estimate of what `prover.reward_correction` corrects: take `source: noise` or `source: given`."
    )


def _check_choice(recipe: Recipe) -> Iterator[str]:
    """Whether noisy labels of the pool are, among the solutions that are chosen, what the verifier's correction assumes."""
    data, verifier = recipe.data, recipe.verifier
    if verifier.correction != "none" and data.correct_source != "prover":
        share = {"dataset": "all", "both": "part"}[data.correct_source]
        yield (
            f"`verifier.correction` is `{verifier.correction}` with `data.correct_source: {data.correct_source}`, where {share} of "
            "the correct sides are references, which no noise mislabels: their pairs are never the wrong way round, and the "
            "rates of the labels would be corrected for where nothing is wrong. Leave the correction out (`none`), or take "
            "`correct_source: prover`."
        )
        return
    of_labels = {("bradley_terry", "exact"), ("cross_entropy", "forward"), ("cross_entropy", "backward")}
    if (verifier.loss, verifier.correction) in of_labels and data.pairs != "all":
        instead = "`forward`" if verifier.correction == "exact" else "`verifier.loss: bradley_terry`"
        yield (
            f"`verifier.correction` is `{verifier.correction}` with `loss: {verifier.loss}`, which needs pairs that are chosen "
            f"without regard to their noisy labels: set `data.pairs` to `all`, or take {instead}."
        )


def check_environments(context: PhaseContext) -> list[str]:
    """The mistakes of `verifier.invariance` in a round, whose mixture tells the environments."""
    method = context.recipe.verifier.invariance.method
    if method == "none" or refusals(method, partial(read_method, method)):
        return []  # an unknown one is refused with the trainer's arguments
    return refusals("`verifier.invariance`", partial(_try_batch, context))


def _try_batch(context: PhaseContext) -> None:
    config, data = context.recipe.verifier.invariance, context.recipe.data
    weights = mixture_weights(data.mixture, context.round_index, window=data.window, custom=data.weights)
    roles = len(GAME_ROLES) if config.environments == "round_role" else 1
    number = sum(1 if source == BASE_ROUND else roles for source, weight in weights.items() if weight > 0)
    batch_size = context.recipe.verifier.pairs_per_step * context.processes.num_processes
    is_balanced = read_method(config.method).is_balanced
    check_batch(number, batch_size, is_balanced=is_balanced, crowded=config.crowded)
