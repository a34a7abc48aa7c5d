"""Checks that the trainers accept the recipe's settings."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, replace
from functools import partial
from math import isqrt
from pathlib import Path

from transformers import TrainingArguments

from pvg_hf.check.loading import check_source
from pvg_hf.check.player_sizes import find_tokenizer, read_critic_size, tokenizer_source
from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig, ProverConfig
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.extensions import cut_to_line, show_value, suggest
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.data.label_rates import Rates
from pvg_hf.data.mixture import weights_for
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.sources import resolve_model
from pvg_hf.trainers.arguments import PROVER_CONFIGS, TrainerRun, prover_arguments, prover_settings, recipe_keys
from pvg_hf.trainers.ppo.critic import ADAPTER, VERIFIER, check_same_tokens
from pvg_hf.trainers.reward.invariance import check_batch, read_method


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


def check_critic(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """
    List mistakes in `prover.ppo.critic`: it contradicts the players' settings, or names a model that cannot be a
    critic.
    """
    critic, verifier = recipe.prover.ppo_settings.critic, recipe.verifier
    where = f"`prover.ppo.critic` is `{critic}`"
    if not recipe.prover.has_critic or critic is None:
        return
    if critic == ADAPTER:
        if recipe.prover.lora is None:
            yield f"{where}, on the prover's frozen base: add adapters (`prover.lora: {{}}`), or name another critic."
    elif critic == VERIFIER and not verifier.traits.has_score_head:
        yield f"{where}, which needs `verifier.kind: bradley_terry`; take `adapter`, or name a model."
    elif critic == VERIFIER and verifier.quantization != "none":
        yield (
            f"{where}, and weights in 4 bits (`verifier.quantization`) cannot be trained: take `adapter`, or name a"
            " model."
        )
    else:
        mistakes = [] if critic == VERIFIER else list(check_source(critic, None, "verifier", where))
        mistakes = mistakes or refusals(where, partial(read_critic_size, recipe, hardware))
        yield from mistakes or refusals(where, partial(_compare_tokens, recipe, critic))


def _compare_tokens(recipe: Recipe, critic: str) -> None:
    source = tokenizer_source(recipe, "verifier") if critic == VERIFIER else (resolve_model(critic, "verifier"), None)
    critics, provers = find_tokenizer(*source), find_tokenizer(*tokenizer_source(recipe, "prover"))
    if critics is not None and provers is not None:  # else the phase itself compares them
        check_same_tokens(critics, provers, "critic")


_ANYWHERE = Path("checkpoints")  # TRL's configs require a folder, but do not create it

# Arguments of transformers and TRL without a meaning in a game, by the reason.
_MEANINGLESS = {
    "the game decides what runs": ("do_eval", "do_predict", "do_train"),
    "rounds are published by the section `hub`": (
        *("hub_always_push", "hub_model_id", "hub_private_repo", "hub_revision", "hub_strategy"),
        "log_completions_hub_repo",
    ),
    "a recipe has no place for a token; log in by `hf auth login`, or set HF_TOKEN": ("hub_token",),
    "the launcher sets it": ("local_rank",),
    "a stopped phase resumes from its own checkpoints": ("resume_from_checkpoint",),
    "trackers are named by `logging`": ("trackio_bucket_id", "trackio_space_id", "trackio_static_space_id"),
    "code of a model's repository is never run": ("trust_remote_code",),
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
    trainings = [replace(recipe, prover=training) for training in recipe.prover.trainings.values()]
    # Mistakes that all trainings have are listed once.
    yield from dict.fromkeys(
        mistake for training in trainings for mistake in _check_training(training, hardware, assumed_rates)
    )


def _check_training(recipe: Recipe, hardware: Hardware, assumed_rates: Rates) -> list[str]:
    def make(run: TrainerRun) -> None:
        uneven = prover_arguments(recipe, run, assumed_rates=assumed_rates).find_uneven_saving()
        if uneven is not None:
            raise ValueError(uneven)

    config_class = PROVER_CONFIGS[recipe.prover.algorithm]
    settings = partial(prover_settings, recipe, assumed_rates=assumed_rates)
    return check_arguments(recipe, "prover", hardware, config_class, settings, make)


def check_arguments(
    recipe: Recipe,
    player: str,
    hardware: Hardware,
    config_class: type[TrainingArguments],
    settings: Callable[[TrainerRun], Collection[str]],
    make: Callable[[TrainerRun], object],
) -> list[str]:
    """
    List mistakes in a player's section that its trainer would refuse: first uneven batches, then unknown or reserved
    arguments, then values that do not fit each other.

    Args:
        settings: Returns the arguments that the game sets.
        make: Makes the trainer's config, and raises a `ValueError` if that refuses a value.
    """
    run = TrainerRun(_ANYWHERE, hardware)
    return (
        list(check_batch_sizes(recipe, player, hardware.num_processes))
        or list(_refused_fields(player, recipe.player(player), config_class, settings(run)))
        or refusals(f"`{player}`", partial(make, run))
    )


def check_batch_sizes(recipe: Recipe, player: str, num_processes: int) -> Iterator[str]:
    """
    List a batch that the processes cannot share evenly, or that `micro_batch_size` does not divide: TRL would drop
    rows.
    """
    config = recipe.player(player)
    sizes, rows = config.step_sizes, config.rows_per_step
    unit = "pairs" if recipe.verifier.traits.learns_from_pairs else "evaluations"
    unit = "solutions" if player == "prover" else unit
    share = rows // num_processes
    if rows % num_processes:
        keys, factors = " x ".join(f"`{player}.{key}`" for key in sizes), " x ".join(map(str, sizes.values()))
        yield f"{keys} is {factors} = {rows} {unit}, which {num_processes} processes cannot share evenly."
    elif player == "verifier" and config.needs_whole_steps and config.rows_at_once(share) < share:
        yield (
            f"`verifier.micro_batch_size` is {config.micro_batch_size}, and the penalty of"
            f" `verifier.invariance.method` is over a process's {share} pairs of a step together: leave it out, and"
            " set `verifier.gradient_checkpointing` to save memory."
        )
    elif share % config.rows_at_once(share):
        pairs = [(number, share // number) for number in range(1, isqrt(share) + 1) if share % number == 0]
        divisors = ", ".join(map(str, sorted({number for pair in pairs for number in pair})))
        yield (
            f"`{player}.micro_batch_size` is {config.micro_batch_size}, which does not divide a process's {share}"
            f" {unit} a step; take one of {cut_to_line(divisors, 200)}, or `auto`."
        )
    if config.warmup and config.warmup.batch_size % num_processes:
        yield (
            f"`{player}.warmup.batch_size` is {config.warmup.batch_size}, which {num_processes} processes cannot share"
            f" evenly; take a multiple of {num_processes}."
        )


def check_num_prompts(config: ProverConfig, num_problems: int) -> Iterator[str]:
    """List a mistake if the prover's problems (D_pi) are too few for one step."""
    num_prompts = num_problems * (2 if config.roles == "shared" else 1)
    if num_prompts < config.prompts_per_step:
        yield (
            f"`prover.prompts_per_step` is {config.prompts_per_step}, but D_pi has {num_problems} problems for"
            f" training, which give {num_prompts} prompts: use more problems (`task`, a smaller"
            " `split.verifier_share`), or fewer prompts a step."
        )


def _refused_fields(
    player: str,
    config: PlayerConfig,
    config_class: type[TrainingArguments],
    settings: Collection[str],
) -> Iterator[str]:
    """
    List arguments in `trainer` that the trainer does not know, that a key of the recipe sets, or that the game sets.
    """
    known = [field.name for field in fields(config_class) if field.init]
    keys = recipe_keys(player, config)
    for name, value in config.trainer.items():
        mistake = f"`{player}.trainer` has `{name}`, which"
        if name in keys:
            yield f"{mistake} the recipe sets with its key `{keys[name]}`; use that key."
        elif name in settings:
            yield f"{mistake} the game sets itself and relies on: leave it out."
        elif reason := next((reason for reason, names in _MEANINGLESS.items() if name in names), None):
            yield f"{mistake} has no meaning in a game ({reason}): leave it out."
        elif name not in known:
            yield (
                f"`{player}.trainer` has `{cut_to_line(name)}`, which is not a field of `{config_class.__name__}`."
                f" {suggest(name, known)}"
            )
        elif name in _RANGES and value is not None:
            least, most = _RANGES[name]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
                yield (
                    f"`{player}.trainer.{name}` must be a number from {least:,} to {most:,}; got {show_value(value)}."
                )
