"""Describes a phase of a game, counts its tokens by kind of work, and estimates its peak memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from accelerate.utils import parse_flag_from_env

from pvg_hf.check.amounts import Amounts, Length
from pvg_hf.check.player_sizes import PlayerSize, critic_bytes
from pvg_hf.check.verifier_kinds import describe_micro_batch
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.stopwatch import EVALUATING, SCORING, TRAINING, WRITING
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.static_sampler import FREE_SHARE, TRAINING_FREE_SHARE

Sizes = Mapping[str, PlayerSize]  # of `prover`, `verifier` and PPO's `critic`


class Writing(NamedTuple):
    """`num_samples` solutions for each of `num_problems` problems in a role."""

    role: Role
    num_problems: int
    num_samples: int


def list_writings(phase: str, amounts: Amounts) -> list[Writing]:
    """List the solutions that the prover writes in a phase, except those that it learns from or that select a checkpoint."""
    recipe, mint, on_pool = amounts.recipe, amounts.recipe.mint, amounts.num_verifier_problems
    on_test = [Writing(role, amounts.num_problems("test"), mint.test_solutions_per_problem) for role in GAME_ROLES]
    if phase == "bootstrap":
        base = Writing(Role.BASE, on_pool, recipe.bootstrap.solutions_per_problem)
        return on_test if recipe.bootstrap.import_from else [*on_test, base]
    if phase == "mint":
        pool = [Writing(role, on_pool, mint.solutions_per_problem) for role in GAME_ROLES]
        heldout = Writing(Role.HELPFUL, amounts.num_problems("verifier_heldout"), mint.test_solutions_per_problem)
        return [*on_test, *pool, heldout]
    if phase == "prover" and recipe.task.shows_own_solutions and Role.SNEAKY in recipe.prover.trained_roles:
        return [Writing(Role.HELPFUL, amounts.num_problems("prover"), mint.solutions_per_problem)]
    return []


def describe_phase(phase: str, amounts: Amounts) -> str:
    """Describe what a phase does in a few words and numbers."""
    recipe, on_test = amounts.recipe, f"{amounts.num_test_solutions:,} on test"
    if phase == "warmup":
        parts = {
            name: f"{config.warmup.max_steps:,} steps of {config.warmup.batch_size} references"
            if config.warmup
            else "random weights"
            for name, config in recipe.players.items()
            if config.is_made
        }
        return "; ".join(f"{name}: {what}" for name, what in parts.items())
    if phase == "bootstrap":
        if recipe.bootstrap.import_from:
            return f"solutions from {recipe.bootstrap.import_from}; {on_test}"
        return (
            f"{amounts.num_verifier_problems * recipe.bootstrap.solutions_per_problem:,} solutions on D_V, {on_test}"
        )
    if phase == "verifier":
        return recipe.verifier.implementation().describe_training(amounts)
    if phase == "prover":
        return _describe_training(amounts)
    if phase == "mint":
        number = len(GAME_ROLES) * amounts.num_verifier_problems * recipe.mint.solutions_per_problem
        return f"{number:,} solutions on D_V, {on_test}"
    return (
        f"{amounts.num_test_solutions:,} base solutions on test scored, {amounts.num_crossed_solutions:,} of other rounds or by "
        "their verifiers (mean)"
    )


def _describe_training(amounts: Amounts) -> str:
    prover = amounts.recipe.prover
    epochs = prover.num_batches * prover.prompts_per_step / amounts.num_prompts
    helpful = prover.training_of(Role.HELPFUL).max_steps
    each = " for each role" if prover.num_trainings > 1 else ""
    each = f" for the sneaky role and {helpful:,} for the helpful one" if helpful != prover.max_steps else each
    batches = "" if prover.steps_per_batch == 1 else f", {prover.steps_per_batch} on each batch"
    return (
        f"at most {prover.max_steps:,} steps{each}{batches} of {prover.prompts_per_step} prompts x "
        f"{prover.num_generations} solutions{describe_micro_batch(prover)}; {amounts.num_prompts:,} prompts ({epochs:.1f} epochs)"
    )


def count_tokens(phase: str, amounts: Amounts) -> dict[str, float]:
    """
    Count the tokens of a phase by kind of work, as [`~pvg_hf.core.stopwatch`] does: written ones without prompts, scored and
    trained ones with them. Texts have their mean length, and no training stops early.
    """
    recipe, solution = amounts.recipe, amounts.lengths.solution.mean
    verifier = recipe.verifier.implementation()
    scored = verifier.scored_tokens(amounts)  # of a solution
    num_written = sum(writing.num_problems * writing.num_samples for writing in list_writings(phase, amounts))
    if phase == "warmup":
        num_texts = sum(
            config.warmup.max_steps * config.warmup.batch_size for config in recipe.players.values() if config.warmup
        )
        return {TRAINING: num_texts * (amounts.lengths.prompt[Role.HELPFUL].mean + solution)}
    if phase == "bootstrap":
        return {WRITING: num_written * solution}
    if phase == "verifier":
        num_heldout = amounts.num_problems("verifier_heldout") * recipe.data.solutions_per_problem
        return {**verifier.training_tokens(amounts), EVALUATING: num_heldout * scored}
    if phase == "prover":
        number, num_selecting = (
            recipe.prover.total_batches * recipe.prover.rows_per_step,
            amounts.num_selecting_solutions,
        )
        trained = number * recipe.prover.steps_per_batch * (amounts.training_prompt.mean + solution)
        tokens = {WRITING: (number + num_written) * solution, SCORING: number * scored, TRAINING: trained}
        return {**tokens, EVALUATING: num_selecting * (solution + scored)} if num_selecting else tokens
    if phase == "mint":
        return {WRITING: num_written * solution, SCORING: num_written * scored + verifier.labelling_tokens(amounts)}
    return {SCORING: (amounts.num_test_solutions + amounts.num_crossed_solutions) * scored}


def peak_memory(phase: str, amounts: Amounts, sizes: Sizes) -> float:
    """Estimate the peak memory of a process in a phase in bytes, including the players' weights."""
    if phase == "warmup":
        return _warmup_memory(amounts, sizes)
    config, verifier = amounts.recipe.verifier, amounts.recipe.verifier.implementation()
    # The frozen verifier may be in a higher precision than its base in training with an adapter.
    scorer = replace(sizes["verifier"], weight_bytes=amounts.hardware.dtype(config.dtype, is_precise=True).itemsize)
    scoring = verifier.scoring_memory(amounts, scorer)
    if phase == "evaluate":
        return scorer.frozen_bytes + scoring
    if phase == "verifier":  # a second copy then scores held-out solutions, as the verifier is used later
        learning = verifier.training_memory(amounts, sizes["verifier"])
        return sizes["verifier"].training_bytes + max(learning, scorer.frozen_bytes + scoring)
    beside_prover = scorer.num_trained * scorer.trained_bytes if config.shares_base else scorer.frozen_bytes
    if phase == "prover":
        return _training_memory(amounts, sizes, beside_prover, scoring)
    prover = sizes["prover"]
    held = prover.frozen_bytes + (beside_prover if phase == "mint" else 0)
    writings = [_writing_memory(amounts, prover, held, writing) for writing in list_writings(phase, amounts)]
    return held + max(writings + ([scoring] if phase == "mint" else []))


def _warmup_memory(amounts: Amounts, sizes: Sizes) -> float:
    peaks = [0.0]
    for name, config in amounts.recipe.players.items():
        if config.warmup:
            size = sizes[name]
            whole = replace(size, num_trained=size.num_parameters, trained_bytes=size.weight_bytes)
            text = (amounts.lengths.prompt[Role.HELPFUL] + amounts.lengths.solution).cap(config.warmup.max_length)
            rows = config.warmup.batch_size // amounts.num_processes
            width = text.mean  # sorted by length, with little padding
            peaks.append(whole.training_bytes + whole.backward_bytes(rows, width, num_logits=width, recomputes=False))
    return max(peaks)


def _training_memory(amounts: Amounts, sizes: Sizes, verifier_bytes: float, scoring: float) -> float:
    """Peak of the prover phase, in which solutions are written, scored, and trained on."""
    prover, config, solution = sizes["prover"], amounts.recipe.prover, amounts.lengths.solution
    # An adapter's reference is the base below it; full weights need a second copy.
    reference = prover.frozen_bytes if config.beta and not config.lora else 0
    critic = critic_bytes(config, sizes["critic"]) if config.has_critic else 0
    held = prover.training_bytes + reference + critic + verifier_bytes
    share = config.rows_per_step // amounts.num_processes
    written = _sampling_memory(amounts, prover, held, amounts.training_prompt, share, share, TRAINING_FREE_SHARE)
    # One backward pass goes through prover and critic, so that they need their memory at the same time.
    rows, width = config.rows_at_once(share), (amounts.training_prompt + solution).high
    how = {"recomputes": config.recomputes, "is_tiled": True}
    learning = prover.backward_bytes(rows, width, num_logits=solution.high, **how)
    learning += sizes["critic"].backward_bytes(rows, width, **how) if config.has_critic else 0
    writings = list_writings("prover", amounts)
    if is_compiled(amounts):
        learning += written  # its cache stays, and the solutions that select a checkpoint are written in it
    elif amounts.num_selecting_solutions:
        writings.append(Writing(Role.HELPFUL, amounts.num_selecting_problems, config.eval_samples))
    others = [_writing_memory(amounts, prover, held, writing) for writing in writings]
    return held + max(written, learning, scoring, *others)


def is_compiled(amounts: Amounts) -> bool:
    """Whether solutions are assumed to be written by a compiled `generate`: on a GPU, whatever the engine."""
    return amounts.hardware.has_gpu and not parse_flag_from_env("ACCELERATE_USE_FSDP")


def _writing_memory(amounts: Amounts, prover: PlayerSize, held: float, writing: Writing) -> float:
    per_batch = amounts.recipe.mint.problems_per_batch or Sampler.default_prompts_per_batch
    prompts = writing.num_problems / amounts.num_processes
    rows, at_once = prompts * writing.num_samples, min(per_batch, prompts) * writing.num_samples
    return _sampling_memory(amounts, prover, held, amounts.lengths.prompt[writing.role], rows, at_once, FREE_SHARE)


def _sampling_memory(
    amounts: Amounts,
    prover: PlayerSize,
    held: float,
    prompt: Length,
    num_rows: float,
    rows_at_once: float,
    free_share: float,
) -> float:
    """Memory of writing `num_rows` solutions in a process, of which the package's own loop writes `rows_at_once`."""
    longest = amounts.recipe.prover.max_completion_length
    if not is_compiled(amounts):
        return prover.loop_bytes(rows_at_once, prompt.high + longest)
    return prover.static_cache_bytes(num_rows, round(prompt.high) + longest, (amounts.memory - held) * free_share)
