"""Checks that the trainers accept the recipe's settings."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from math import isqrt
from pathlib import Path

from transformers import TrainingArguments

from pvg_hf.check.amounts import find_tokenizer, tokenizer_source
from pvg_hf.check.loading import check_source
from pvg_hf.check.player_sizes import read_critic_size
from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig, ProverConfig
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.extensions import cut_to_line, show_value, suggest
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.data.label_rates import Rates, is_estimated_for_prover
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.pairs.build import check_pair_choice
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.sources import resolve_model
from pvg_hf.rewards.correction_audit import audit_prover
from pvg_hf.trainers.arguments import (
    PROVER_CONFIGS,
    TrainerRun,
    prover_arguments,
    prover_settings,
    recipe_keys,
)
from pvg_hf.trainers.ppo.critic import ADAPTER, VERIFIER, check_same_tokens
from pvg_hf.trainers.reward.invariance import check_batch, read_method


def check_corrections(recipe: Recipe, assumed_rates: Mapping[str, Rates]) -> Iterator[str]:
    """
    List mistakes in `data.pairs`, `rates` and the players' corrections.

    Args:
        recipe ([`Recipe`]):
            Recipe with the round's overrides.
        assumed_rates (`Mapping[str, tuple[float, float]]`):
            `(rho0, rho1)` that the recipe states for the corrections of `verifier` and `prover`.
    """
    data, noise = recipe.data, recipe.noise
    yield from refusals("`data`", partial(check_pair_choice, data.pairs, data.pair_share, data.correct_source))
    is_pool_clean = noise.flips_in_training
    if recipe.rates.source == "trusted" and is_pool_clean:
        yield (
            f"`rates.source` is `trusted`, but with `noise.level: {noise.level}` and `noise.resample: {noise.resample}` the "
            "pool's labels are clean and flipped in training only, where no estimate sees them: take `source: noise`."
        )
    is_noisy = any(assumed_rates["verifier"]) or recipe.rates.source == "trusted"
    if is_noisy and not is_pool_clean:
        yield from _check_choice(recipe)
    yield from _check_rates(recipe)
    if recipe.prover.reward_correction != "none":
        yield from [] if is_pool_clean else _check_estimate_for_prover(recipe)
        yield from refusals(
            "`prover.reward_correction`", partial(audit_prover, recipe.prover, assumed_rates["prover"])
        )


def _check_rates(recipe: Recipe) -> Iterator[str]:
    """List corrections without any stated rates. A rate of 0 that is stated explicitly, as in a sweep, is accepted."""
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
    """List a mistake if rates estimated from the pool's labels are not those of the labels in the prover's reward."""
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
    """List choices of pairs for which the noise of the chosen labels is not what the verifier's correction assumes."""
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


def check_invariance_settings(recipe: Recipe, round_index: int) -> list[str]:
    """List mistakes in `verifier.invariance`, given the environments in a round's mixture."""
    method = recipe.verifier.invariance.method
    if method == "none" or refusals(method, partial(read_method, method)):
        return []  # an unknown method is refused with the trainer's arguments
    return refusals("`verifier.invariance`", partial(_try_batch, recipe, round_index))


def _try_batch(recipe: Recipe, round_index: int) -> None:
    config, weights = recipe.verifier.invariance, weights_for(recipe.data, round_index)
    roles = len(GAME_ROLES) if config.environments == "round_role" else 1
    number = sum(1 if source == BASE_ROUND else roles for source, weight in weights.items() if weight > 0)
    batch_size = recipe.verifier.pairs_per_step
    is_balanced = read_method(config.method).is_balanced
    check_batch(number, batch_size, is_balanced=is_balanced, crowded=config.crowded)


def check_stop_rule(recipe: Recipe) -> Iterator[str]:
    """List a stop rule that can never fire."""
    rule, roles = recipe.stopping.rule, recipe.prover.roles
    if rule in ("parity", "parity_and_incorrect") and roles == "helpful_only":
        yield (
            f"`stopping.rule` is `{rule}`, which compares the sneaky role with the helpful one and can never fire with "
            "`prover.roles: helpful_only`: take `max_steps`, or leave it out."
        )


def check_critic(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """List mistakes in `prover.ppo.critic` that can be found without loading models."""
    config, verifier = recipe.prover, recipe.verifier
    if not config.has_critic:
        return
    critic = config.ppo_settings.critic
    where = f"`prover.ppo.critic` is `{critic}`"
    if critic == ADAPTER and config.lora is None:
        yield f"{where}, which needs the prover's frozen base: add adapters (`prover.lora: {{}}`), or name another critic."
        return
    if critic in (None, ADAPTER):
        return
    if critic == VERIFIER and not verifier.traits.has_score_head:
        yield f"{where}, which needs `verifier.kind: bradley_terry`; take `adapter`, or name a model."
        return
    if critic == VERIFIER and verifier.quantization != "none":
        yield (
            f"{where}, and `verifier.quantization` is `{verifier.quantization}`: weights in 4 bits cannot be trained as a "
            "critic. Take `adapter`, or name a model."
        )
    mistakes = [] if critic == VERIFIER else list(check_source(critic, None, "verifier", where))
    if not mistakes:
        mistakes = refusals(where, partial(read_critic_size, recipe, hardware))
    yield from mistakes or _check_tokens(recipe, critic, where)


def _check_tokens(recipe: Recipe, critic: str, where: str) -> Iterator[str]:
    # If either tokenizer is not available yet, the phase itself makes this check.
    is_verifier = critic == VERIFIER
    source = tokenizer_source(recipe, "verifier") if is_verifier else (resolve_model(critic, "verifier"), None)
    critics, provers = find_tokenizer(*source), find_tokenizer(*tokenizer_source(recipe, "prover"))
    if critics is not None and provers is not None:
        yield from refusals(where, partial(check_same_tokens, critics, provers, "critic"))


def check_self_evaluation(recipe: Recipe) -> Iterator[str]:
    """List mistakes in `prover.self_evaluation`."""
    prover, where = recipe.prover, "`prover.self_evaluation` is set"
    if prover.self_evaluation is None:
        return
    if not recipe.verifier.traits.has_bounded_scores:
        yield f"{where}, which compares its own score with the verifier's; that is in [0, 1] only with `verifier.kind: score`."
    if prover.roles != "helpful_only":
        yield f"{where}, which rewards honesty: it needs `prover.roles: helpful_only`; got `{prover.roles}`."
    if "helpful" not in recipe.task.prompts:
        yield f"{where}, and its prompt must ask for the evaluation: write one in `task.prompts.helpful`."
    if prover.has_critic:
        yield f"{where}, which needs `prover.algorithm: grpo`; got `{prover.algorithm}`."
    if prover.reward_correction != "none":
        yield f"{where} and replaces `prover.reward`; leave out `prover.reward_correction`."


ANYWHERE = Path("checkpoints")  # TRL's configs require a folder, but do not create it

# Arguments of transformers and TRL without a meaning in a game: those that only their scripts read, those that publish in another
# way than `hub`, and remote code.
_MEANINGLESS = {
    "do_eval": "the game decides what runs",
    "do_predict": "the game decides what runs",
    "do_train": "the game decides what runs",
    "hub_always_push": "rounds are published by the section `hub`",
    "hub_model_id": "rounds are published by the section `hub`",
    "hub_private_repo": "rounds are published by the section `hub`",
    "hub_revision": "rounds are published by the section `hub`",
    "hub_strategy": "rounds are published by the section `hub`",
    "hub_token": "a recipe has no place for a token; log in by `hf auth login`, or set HF_TOKEN",
    "local_rank": "the launcher sets it",
    "log_completions_hub_repo": "rounds are published by the section `hub`",
    "resume_from_checkpoint": "a stopped phase resumes from its own checkpoints",
    "trackio_bucket_id": "trackers are named by `logging`",
    "trackio_space_id": "trackers are named by `logging`",
    "trackio_static_space_id": "trackers are named by `logging`",
    "trust_remote_code": "code of a model's repository is never run",
}

# Ranges that transformers does not check: (minimum, maximum).
_RANGES = {
    "adam_beta1": (0, 1),
    "adam_beta2": (0, 1),
    "adam_epsilon": (0, 1),
    "dataloader_num_workers": (0, 128),
    "dataloader_prefetch_factor": (1, 1000),
    "dataset_num_proc": (1, 128),
    "ddp_timeout": (1, 10**7),
    "epsilon": (0, 10),
    "epsilon_high": (0, 10),
    "generation_batch_size": (1, 10**7),
    "label_smoothing_factor": (0, 1),
    "neftune_noise_alpha": (0, 1000),
    "num_iterations": (1, 10**4),
    "pad_to_multiple_of": (1, 10**5),
    "per_device_eval_batch_size": (1, 10**6),
    "ref_model_mixup_alpha": (0, 1),
    "ref_model_sync_steps": (1, 10**9),
    "steps_per_generation": (1, 10**6),
    "top_entropy_quantile": (0, 1),
    "torch_empty_cache_steps": (1, 10**9),
    "vllm_gpu_memory_utilization": (0, 1),
}


def check_prover_trainer(recipe: Recipe, hardware: Hardware, assumed_rates: Rates) -> Iterator[str]:
    """List mistakes in `prover` that its trainer would refuse or ignore."""
    config = recipe.prover
    if config.is_separate and config.lora is None:
        yield "`prover.roles` is `separate`, which trains an adapter per role: add a section `prover.lora` (`lora: {}`)."
    batch = list(check_batch_arithmetic(config, hardware.num_processes))
    trainings = [replace(recipe, prover=training) for training in config.trainings.values()]
    run = TrainerRun(ANYWHERE, hardware)
    # Mistakes that all trainings have are listed once.
    yield from batch or dict.fromkeys(
        mistake for training in trainings for mistake in _check_prover_arguments(training, run, assumed_rates)
    )


def check_batch_arithmetic(config: ProverConfig, num_processes: int) -> Iterator[str]:
    """
    List mistakes in the prover's batch sizes.

    TRL generates per process and trains in micro-batches; a remainder would be dropped, or split a group.
    """
    solutions = config.prompts_per_step * config.num_generations
    product = (
        f"`prover.prompts_per_step` x `prover.num_generations` = {config.prompts_per_step} x {config.num_generations}"
    )
    if solutions % num_processes:
        yield f"{product} = {solutions} solutions cannot be shared evenly by {num_processes} processes."
        return
    yield from check_micro_batch("prover", config, solutions // num_processes, "solutions")


def check_micro_batch(player: str, config: PlayerConfig, share: int, rows: str) -> Iterator[str]:
    """List a `micro_batch_size` that does not divide a process's `share` of a step, in `rows`, or may not divide it."""
    if player == "verifier" and config.needs_whole_steps and config.rows_at_once(share) < share:
        yield (
            f"`verifier.micro_batch_size` is {config.micro_batch_size}, and the penalty of `verifier.invariance.method` is over a "
            f"process's {share} pairs of a step together: leave it out, and set `verifier.gradient_checkpointing` to save memory."
        )
    elif share % config.rows_at_once(share):
        yield (
            f"`{player}.micro_batch_size` is {config.micro_batch_size}, which does not divide a process's {share} {rows} a step; "
            f"take one of {_divisors(share)}, or `auto`."
        )


def _divisors(number: int) -> str:
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return cut_to_line(", ".join(map(str, sorted({*small, *(number // divisor for divisor in small)}))), 200)


def _check_prover_arguments(recipe: Recipe, run: TrainerRun, assumed_rates: Rates) -> Iterator[str]:
    config, settings = recipe.prover, prover_settings(recipe, run, assumed_rates)
    refused = list(refused_fields("prover", config, PROVER_CONFIGS[config.algorithm], settings))
    yield from refused or refusals("`prover`", partial(_make_prover_arguments, recipe, run, assumed_rates))


def _make_prover_arguments(recipe: Recipe, run: TrainerRun, assumed_rates: Rates) -> None:
    """Build the prover's arguments, as the prover phase does, so that TRL checks them against each other."""
    mistake = prover_arguments(recipe, run, assumed_rates=assumed_rates).find_uneven_saving()
    if mistake is not None:
        raise ValueError(mistake)


def check_warmups(recipe: Recipe, num_processes: int) -> Iterator[str]:
    """List warm-ups whose batches the processes cannot share evenly."""
    for player, config in recipe.players.items():
        if config.warmup and config.warmup.batch_size % num_processes:
            yield (
                f"`{player}.warmup.batch_size` is {config.warmup.batch_size}, the solutions of all processes, which "
                f"{num_processes} processes cannot share evenly; take a multiple of {num_processes}."
            )


def check_num_prompts(config: ProverConfig, num_problems: int) -> Iterator[str]:
    """List a mistake if the prover's problems (D_pi) are too few for one step."""
    num_roles = 2 if config.roles == "shared" else 1
    if num_problems * num_roles < config.prompts_per_step:
        yield (
            f"`prover.prompts_per_step` is {config.prompts_per_step}, but D_pi has {num_problems} problems for training, "
            f"which give {num_problems * num_roles} prompts: use more problems (`task`, a smaller "
            "`split.verifier_share`), or fewer prompts a step."
        )


def refused_fields(
    player: str, config: PlayerConfig, config_class: type[TrainingArguments], settings: Collection[str]
) -> Iterator[str]:
    """List arguments in `trainer` that the trainer does not know, that a key of the recipe sets, or that the game sets."""
    known = [field.name for field in fields(config_class) if field.init]
    keys = recipe_keys(player, config)
    for name, value in config.trainer.items():
        mistake = f"`{player}.trainer` has `{name}`, which"
        if name in keys:
            yield f"{mistake} the recipe sets with its key `{keys[name]}`; use that key."
        elif name in settings:
            yield f"{mistake} the game sets itself and relies on: leave it out."
        elif name in _MEANINGLESS:
            yield f"{mistake} has no meaning in a game ({_MEANINGLESS[name]}): leave it out."
        elif name not in known:
            yield f"`{player}.trainer` has `{cut_to_line(name)}`, which is not a field of `{config_class.__name__}`. {suggest(name, known)}"
        elif name in _RANGES and value is not None and not _is_within(value, *_RANGES[name]):
            least, most = _RANGES[name]
            yield (
                f"`{player}.trainer.{name}` must be a number from {least:,} to {most:,}, or left out; got {show_value(value)}."
            )


def _is_within(value: object, least: float, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
