"""Settings of a round that contradict each other, or that would not do what they say."""

from collections.abc import Iterator, Mapping
from functools import partial

from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.fields import default_of
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.data.label_rates import Rates, is_estimated_for_prover
from pvg_hf.data.pairs.build import check_pair_choice
from pvg_hf.rewards.correction_audit import audit_prover

# Corrections that need pairs of any labels, by `verifier.loss` and `verifier.correction`.
_CORRECTIONS_OF_LABELS = {("bradley_terry", "exact"), ("cross_entropy", "forward"), ("cross_entropy", "backward")}


def check_contradictions(recipe: Recipe) -> Iterator[str]:
    """List contradictions between the settings of a round."""
    yield from _of_observed_labels(recipe)
    if recipe.data.annotations is not None and recipe.noise.is_for_verifier and recipe.noise.flips_in_training:
        yield (
            "`data.annotations` has labels by people, which `noise` would flip in the verifier's training"
            f" (`noise.level: {recipe.noise.level}`, `noise.resample: {recipe.noise.resample}`): leave one of the two"
            " out, or flip the pool's labels (`level: label`, `resample: fixed`)."
        )
    yield from _of_prover(recipe)
    yield from _of_self_evaluation(recipe)
    yield from _of_players(recipe)


def _of_observed_labels(recipe: Recipe) -> Iterator[str]:
    """List settings by which a run with `stopping.labels: observed` would decide by the truth."""
    noise, watchdogs, where = recipe.noise, recipe.watchdogs, "`stopping.labels` is `observed`, but"
    if recipe.stopping.labels != "observed":
        return
    if noise.flips_in_training:
        yield (
            f"{where} `noise.level: {noise.level}` and `noise.resample: {noise.resample}` flip labels in the"
            " verifier's training only: take `clean`, or labels that are flipped once."
        )
    if watchdogs.false_positives == "stop":
        yield (
            f"{where} `watchdogs.false_positives: stop` ends a phase by the truth: take `alert`, `off` or `labels:"
            " clean`."
        )
    if watchdogs.collapse_recovery == "supervised":
        yield (
            f"{where} `watchdogs.collapse_recovery: supervised` trains on solutions that are wrong by the truth: take"
            " another recovery, or `labels: clean`."
        )


def check_corrections(recipe: Recipe, assumed_rates: Mapping[str, Rates]) -> Iterator[str]:
    """
    List mistakes in `data.pairs` and in the players' corrections, which assume rates `(rho0, rho1)` of wrong labels.
    """
    noise, rates, verifier, prover, data = recipe.noise, recipe.rates, recipe.verifier, recipe.prover, recipe.data
    yield from refusals("`data`", partial(check_pair_choice, data.pairs, data.pair_share, data.correct_source))
    if noise.soft_labels and verifier.correction != "none":
        yield (
            f"`verifier.correction` is `{verifier.correction}`, and `noise.soft_labels` average over the noise"
            " already: set only one of the two."
        )
        return
    is_stated = noise.is_any or noise.epsilon is not None  # a stated rate of 0, as in a sweep, is accepted
    is_given = rates.source == "given" and rates.rho0 + rates.rho1 > 0
    of_players = (
        ("verifier", "verifier.correction", verifier.correction, noise.is_for_verifier, rates.source == "trusted"),
        ("prover", "prover.reward_correction", prover.reward_correction, noise.is_for_prover, False),
    )
    for player, key, correction, is_noisy, is_estimated in of_players:
        has_rates = is_given or is_estimated or (rates.source != "given" and is_stated and is_noisy)
        if correction != "none" and not has_rates:
            yield (
                f"`{key}` is `{correction}`, but the labels that the {player} sees have no noise. State it (`noise`)"
                " or the rates to assume (`rates: {source: given, rho0: ..., rho1: ...}`), or leave the correction"
                " out."
            )
    if rates.source == "trusted" and noise.flips_in_training:
        yield (
            f"`rates.source` is `trusted`, but with `noise.level: {noise.level}` and `noise.resample:"
            f" {noise.resample}` the pool's labels are clean and flipped in training only, where no estimate sees"
            " them: take `source: noise`."
        )
    if not noise.flips_in_training and (any(assumed_rates["verifier"]) or rates.source == "trusted"):
        yield from _of_pairs(recipe)
    if prover.reward_correction != "none":
        yield from [] if noise.flips_in_training else _of_estimate(recipe)
        yield from refusals("`prover.reward_correction`", partial(audit_prover, prover, assumed_rates["prover"]))


def _of_estimate(recipe: Recipe) -> Iterator[str]:
    """
    List settings with which rates estimated from the pool's labels are not those of the labels in the prover's reward.
    """
    noise = recipe.noise
    if not is_estimated_for_prover(recipe) or (noise.is_for_verifier and noise.schedule is None):
        return
    why = f"with `noise.applies_to: {noise.applies_to}` they are clean"
    if noise.is_for_verifier:
        why = "with `noise.schedule` their rates are those of earlier rounds"
    yield (
        f"`rates.source` is `trusted`, which estimates rates from the pool's labels, but {why}, unlike those that "
        "`prover.reward_correction` corrects: take `source: noise` or `source: given`."
    )


def _of_pairs(recipe: Recipe) -> Iterator[str]:
    """List choices of pairs for which the noise of the chosen labels is not what the verifier's correction assumes."""
    data, verifier = recipe.data, recipe.verifier
    where = f"`verifier.correction` is `{verifier.correction}` with"
    if verifier.correction != "none" and data.correct_source != "prover":
        share = {"dataset": "all", "both": "part"}[data.correct_source]
        yield (
            f"{where} `data.correct_source: {data.correct_source}`, where {share} of the correct sides are references:"
            " their pairs are never the wrong way round. Leave the correction out (`none`), or take `correct_source:"
            " prover`."
        )
    elif (verifier.loss, verifier.correction) in _CORRECTIONS_OF_LABELS and data.pairs != "all":
        instead = "`forward`" if verifier.correction == "exact" else "`verifier.loss: bradley_terry`"
        yield (
            f"{where} `loss: {verifier.loss}`, which needs pairs that are chosen without regard to their noisy labels:"
            f" set `data.pairs` to `all`, or take {instead}."
        )


def _of_prover(recipe: Recipe) -> Iterator[str]:
    prover, rule = recipe.prover, recipe.stopping.rule
    if rule in ("parity", "parity_and_incorrect") and prover.roles == "helpful_only":
        yield (
            f"`stopping.rule` is `{rule}`, which compares the roles and can never fire with `prover.roles:"
            " helpful_only`: take `max_steps`, or leave it out."
        )
    if prover.is_separate and prover.lora is None:
        yield (
            "`prover.roles` is `separate`, which trains an adapter per role: add a section `prover.lora` (`lora: {}`)."
        )
    penalty = prover.repetition_penalty
    if prover.generation == "continuous" and penalty != default_of(ProverConfig, "repetition_penalty"):
        yield (
            f"`prover.generation` is `continuous`, which ignores `prover.repetition_penalty`, here {penalty}: leave it"
            " out, or use `generation: transformers`."
        )


def _of_self_evaluation(recipe: Recipe) -> Iterator[str]:
    prover, where = recipe.prover, "`prover.self_evaluation` is set"
    if prover.self_evaluation is None:
        return
    if not recipe.verifier.traits.has_bounded_scores:
        yield f"{where}, which needs scores in [0, 1], i.e. `verifier.kind: score`; got `{recipe.verifier.kind}`."
    if prover.roles != "helpful_only":
        yield f"{where}, which rewards honesty: it needs `prover.roles: helpful_only`; got `{prover.roles}`."
    if "helpful" not in recipe.task.prompts:
        yield f"{where}, and its prompt must ask for the evaluation: write one in `task.prompts.helpful`."
    if prover.has_critic:
        yield f"{where}, which needs `prover.algorithm: grpo`; got `{prover.algorithm}`."
    if prover.reward_correction != "none":
        yield f"{where} and replaces `prover.reward`; leave out `prover.reward_correction`."


def _of_players(recipe: Recipe) -> Iterator[str]:
    """List contradictions in the models of the players, and in `verifier.shares_base`."""
    prover, verifier, shared = recipe.prover, recipe.verifier, "`verifier.shares_base` is true"
    for player, config in recipe.players.items():
        if config.quantization != "none" and config.lora is None:
            yield (
                f"`{player}.quantization` is `{config.quantization}`: weights in 4 bits cannot be trained; add"
                f" adapters (`{player}.lora: {{}}`)."
            )
        if verifier.shares_base and config.is_made:
            yield f"{shared}, and `{player}` makes its own weights (`scratch` or `warmup`); leave those out."
    if verifier.shares_base and None in (prover.lora, verifier.lora):
        yield f"{shared}: both players need adapters (`prover.lora`, `verifier.lora`)."
    for key in ("model", "revision", "quantization") if verifier.shares_base else ():
        mine, others = vars(verifier)[key], vars(prover)[key]
        if mine != others:
            yield f"{shared}: `verifier.{key}` is `{mine}`, and `prover.{key}` is `{others}`; they must be the same."
    if verifier.head == "keep" and verifier.traits.has_score_head:
        if verifier.init == "head_only":
            yield (
                "`verifier.head` is `keep`, but `verifier.init: head_only` gives every round a new head; take `full`"
                " or `warm`."
            )
        elif verifier.is_made:
            yield (
                "`verifier.head` is `keep`, but `scratch` and `warmup` make a language model without a head; take"
                " `new`."
            )
