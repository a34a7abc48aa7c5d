"""Amounts, time and memory of each phase of a game."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from accelerate.utils import parse_flag_from_env

from pvg_hf.check.amounts import Amounts, Length
from pvg_hf.check.costs import Work, compiled_sampling, reading, sampling, training
from pvg_hf.check.player_sizes import PlayerSize, critic_bytes
from pvg_hf.check.verifiers import describe_micro_batch, verifier_costs
from pvg_hf.config.player_sections import WarmupConfig
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.static_sampler import FREE_SHARE, TRAINING_FREE_SHARE

Sizes = Mapping[str, PlayerSize]  # of `prover`, `verifier` and PPO's `critic`


class PhaseCosts(Protocol):
    """Protocol of a phase's amounts and costs, with one implementation for each phase."""

    def describe(self, amounts: Amounts) -> str:
        """Describe what the phase does in a few words and numbers."""

    def tokens(self, amounts: Amounts) -> float:
        """
        Return the number of tokens that the phase writes or trains on (for `evaluate`: scores), including prompts. Texts
        have their mean length, and no training stops early.
        """

    def work(self, amounts: Amounts, sizes: Sizes) -> Work:
        """Return the cost of the whole phase for one process; its memory includes the players' weights."""


class WarmupCosts:
    def describe(self, amounts: Amounts) -> str:
        parts = []
        for name, config in amounts.recipe.players.items():
            if config.warmup:
                parts.append(f"{name}: {config.warmup.max_steps:,} steps of {config.warmup.batch_size} references")
            elif config.scratch:
                parts.append(f"{name}: random weights")
        return "; ".join(parts)

    def tokens(self, amounts: Amounts) -> float:
        warmups = [config.warmup for config in amounts.recipe.players.values() if config.warmup]
        num_texts = sum(warmup.max_steps * warmup.batch_size for warmup in warmups)
        return num_texts * (amounts.lengths.prompt[Role.HELPFUL].mean + amounts.lengths.solution.mean)

    def work(self, amounts: Amounts, sizes: Sizes) -> Work:
        configs = amounts.recipe.players
        works = (
            _fine_tuning(amounts, config.warmup, sizes[name]) for name, config in configs.items() if config.warmup
        )
        return sum(works, Work())


def _fine_tuning(amounts: Amounts, warmup: WarmupConfig, size: PlayerSize) -> Work:
    text = (amounts.lengths.prompt[Role.HELPFUL] + amounts.lengths.solution).cap(warmup.max_length)
    text = replace(text, high=text.mean)  # batches are sorted by length, with little padding
    whole = replace(size, num_trained=size.num_parameters, trained_bytes=size.weight_bytes)
    work = training(
        whole,
        num_batches=warmup.max_steps,
        rows=warmup.batch_size // amounts.num_processes,
        text=text,
        num_logits=text.high,
        recomputes=False,
    )
    return work.holding(whole.training_bytes)


class BootstrapCosts:
    def describe(self, amounts: Amounts) -> str:
        bootstrap, on_test = amounts.recipe.bootstrap, f"{amounts.num_test_solutions:,} on test"
        if bootstrap.import_from:
            return f"solutions from {bootstrap.import_from}; {on_test}"
        return f"{amounts.num_verifier_problems * bootstrap.solutions_per_problem:,} solutions on D_V, {on_test}"

    def writings(self, amounts: Amounts) -> list["Writing"]:
        """List what the prover writes."""
        bootstrap = amounts.recipe.bootstrap
        if bootstrap.import_from:
            return _test_writings(amounts)
        base = Writing(Role.BASE, amounts.num_verifier_problems, bootstrap.solutions_per_problem)
        return [*_test_writings(amounts), base]

    def tokens(self, amounts: Amounts) -> float:
        return sum(writing.tokens(amounts) for writing in self.writings(amounts))

    def work(self, amounts: Amounts, sizes: Sizes) -> Work:
        held = sizes["prover"].frozen_bytes
        works = [writing.work(amounts, sizes["prover"], held) for writing in self.writings(amounts)]
        return sum(works, Work()).holding(held)


class VerifierPhaseCosts:
    def describe(self, amounts: Amounts) -> str:
        return verifier_costs(amounts.recipe).describe_training(amounts)

    def tokens(self, amounts: Amounts) -> float:
        return verifier_costs(amounts.recipe).num_training_tokens(amounts)

    def work(self, amounts: Amounts, sizes: Sizes) -> Work:
        """Cost of training, and of scoring the solutions of the held-out problems by a second copy, as it is used later."""
        num_heldout = amounts.num_problems("verifier_heldout") * amounts.recipe.data.solutions_per_problem
        learning = verifier_costs(amounts.recipe).training(amounts, sizes["verifier"])
        scorer = _as_scorer(amounts, sizes["verifier"]).frozen_bytes
        scoring = _scoring(amounts, sizes, num_heldout).holding(scorer)
        return (learning + scoring).holding(sizes["verifier"].training_bytes)


class ProverCosts:
    def describe(self, amounts: Amounts) -> str:
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

    def tokens(self, amounts: Amounts) -> float:
        prover = amounts.recipe.prover
        solutions = prover.total_batches * amounts.solutions_per_step
        of_training = solutions * (amounts.training_prompt.mean + amounts.lengths.solution.mean)
        return of_training + sum(writing.tokens(amounts) for writing in _honest_writings(amounts))

    def work(self, amounts: Amounts, sizes: Sizes) -> Work:
        prover, config = sizes["prover"], amounts.recipe.prover
        # An adapter's reference is the base below it; full weights need a second copy.
        reference = prover.frozen_bytes if config.beta and not config.lora else 0
        critic = critic_bytes(config, sizes["critic"]) if config.has_critic else 0
        held = prover.training_bytes + reference + critic + _verifier_bytes(amounts, sizes)
        work = _prover_batch(amounts, sizes, held) * config.total_batches
        if Role.HELPFUL in config.trained_roles:
            work += _selection(amounts, sizes, held)
        works = (writing.work(amounts, prover, held) for writing in _honest_writings(amounts))
        return sum(works, work).holding(held)


def _honest_writings(amounts: Amounts) -> list["Writing"]:
    """List the solutions that the prover writes before its training, so that sneaky prompts can show them."""
    if not amounts.recipe.task.shows_own_solutions or Role.SNEAKY not in amounts.recipe.prover.trained_roles:
        return []
    return [Writing(Role.HELPFUL, amounts.num_problems("prover"), amounts.recipe.mint.solutions_per_problem)]


def _prover_batch(amounts: Amounts, sizes: Sizes, held: float) -> Work:
    """Cost of a batch: solutions are written, scored, read by the KL reference (and with PPO by critic and prover), trained on."""
    config, solution = amounts.recipe.prover, amounts.lengths.solution
    prover, critics = sizes["prover"], [sizes["critic"]] if config.has_critic else []
    share = amounts.solutions_per_step // amounts.num_processes
    rows, text = config.rows_at_once(share), amounts.training_prompt + solution
    work = _writing(
        amounts,
        prover,
        num_prompts=share / config.num_generations,
        num_samples=config.num_generations,
        prompts_per_batch=share,
        prompt=amounts.training_prompt,
        held=held,
        is_training=True,
    )
    # A static cache stays between the steps.
    cache = work.memory if is_compiled(amounts) else 0
    # Each learner, with the number of positions at which its loss needs logits.
    learners = [(prover, solution.high), *((critic, 0) for critic in critics)]
    learnings = [
        training(
            size,
            num_batches=share // rows,
            rows=rows,
            text=text,
            num_logits=num_logits,
            recomputes=config.recomputes,
            is_tiled=True,
        )
        for size, num_logits in learners
    ]
    # One backward pass goes through all learners, so that they need their memory at the same time.
    learning = replace(sum(learnings, Work()), memory=cache + sum(work.memory for work in learnings))
    readers = [*([prover] if config.beta else []), *([prover, *critics] if critics else [])]
    for size in readers:
        work += reading(size, num_texts=share, text=text, tokens_per_batch=rows * text.high)
    return work + learning * config.steps_per_batch + _scoring(amounts, sizes, share)


def _selection(amounts: Amounts, sizes: Sizes, held: float) -> Work:
    """Cost of the held-out solutions that select the best helpful checkpoint."""
    config = amounts.recipe.prover
    num_problems = min(config.eval_problems, amounts.num_problems("prover_heldout"))
    once = Writing(Role.HELPFUL, num_problems, config.eval_samples).work(amounts, sizes["prover"], held)
    if is_compiled(amounts):
        once = replace(once, memory=0)  # it is written in the cache that stays for training
    once += _scoring(amounts, sizes, num_problems * config.eval_samples)
    return once * (
        1 + -(-config.training_of(Role.HELPFUL).max_steps // config.evaluation_steps)
    )  # before the first step, too


class MintCosts:
    def describe(self, amounts: Amounts) -> str:
        on_pool = len(GAME_ROLES) * amounts.num_verifier_problems * amounts.recipe.mint.solutions_per_problem
        return f"{on_pool:,} solutions on D_V, {amounts.num_test_solutions:,} on test"

    def writings(self, amounts: Amounts) -> list["Writing"]:
        """List what the prover writes."""
        mint = amounts.recipe.mint
        on_pool = amounts.num_verifier_problems, mint.solutions_per_problem
        on_heldout = amounts.num_problems("verifier_heldout"), mint.test_solutions_per_problem
        pool = [Writing(role, *on_pool) for role in GAME_ROLES]
        return [*_test_writings(amounts), *pool, Writing(Role.HELPFUL, *on_heldout)]

    def tokens(self, amounts: Amounts) -> float:
        return sum(writing.tokens(amounts) for writing in self.writings(amounts))

    def work(self, amounts: Amounts, sizes: Sizes) -> Work:
        """Cost of writing and scoring solutions; if the verifier labels them, also of its analyses and their checks."""
        written = self.writings(amounts)
        number = sum(writing.num_problems * writing.num_samples for writing in written) / amounts.num_processes
        held = sizes["prover"].frozen_bytes + _verifier_bytes(amounts, sizes)
        works = (writing.work(amounts, sizes["prover"], held) for writing in written)
        work = sum(works, _scoring(amounts, sizes, number))
        work += verifier_costs(amounts.recipe).labelling(amounts, sizes["verifier"])
        return work.holding(held)


class EvaluateCosts:
    def describe(self, amounts: Amounts) -> str:
        return (
            f"{amounts.num_test_solutions:,} base solutions on test scored, {amounts.num_crossed_solutions:,} of other rounds or by "
            "their verifiers (mean)"
        )

    def tokens(self, amounts: Amounts) -> float:
        return (amounts.num_test_solutions + amounts.num_crossed_solutions) * amounts.lengths.verifier_input.mean

    def work(self, amounts: Amounts, sizes: Sizes) -> Work:
        weights = _as_scorer(amounts, sizes["verifier"]).frozen_bytes
        number = (amounts.num_test_solutions + amounts.num_crossed_solutions) / amounts.num_processes
        return _scoring(amounts, sizes, number).holding(weights)


PHASE_COSTS: dict[str, PhaseCosts] = {
    "warmup": WarmupCosts(),
    "bootstrap": BootstrapCosts(),
    "verifier": VerifierPhaseCosts(),
    "prover": ProverCosts(),
    "mint": MintCosts(),
    "evaluate": EvaluateCosts(),
}


@dataclass(frozen=True)
class Writing:
    """`num_samples` solutions for each of `num_problems` problems in a role."""

    role: Role
    num_problems: int
    num_samples: int

    def tokens(self, amounts: Amounts) -> float:
        """Return the number of tokens, including prompts."""
        lengths = amounts.lengths
        return self.num_problems * (lengths.prompt[self.role].mean + self.num_samples * lengths.solution.mean)

    def work(self, amounts: Amounts, prover: PlayerSize, held: float) -> Work:
        """Return the cost of one process's share, while `held` bytes are taken by weights."""
        return _writing(
            amounts,
            prover,
            num_prompts=self.num_problems / amounts.num_processes,
            num_samples=self.num_samples,
            prompts_per_batch=amounts.recipe.mint.problems_per_batch or Sampler.default_prompts_per_batch,
            prompt=amounts.lengths.prompt[self.role],
            held=held,
        )


def is_compiled(amounts: Amounts) -> bool:
    """
    Whether solutions are assumed to be written by a compiled `generate`: on a GPU, whatever the engine.

    vLLM and continuous batching have no formula of their own.
    """
    return amounts.hardware.has_gpu and not parse_flag_from_env("ACCELERATE_USE_FSDP")


def _writing(
    amounts: Amounts,
    prover: PlayerSize,
    *,
    num_prompts: float,
    num_samples: int,
    prompts_per_batch: float,
    prompt: Length,
    held: float,
    is_training: bool = False,
) -> Work:
    texts = {
        "prompt": prompt,
        "solution": amounts.lengths.solution,
        "max_new_tokens": amounts.recipe.prover.max_completion_length,
    }
    if not is_compiled(amounts):
        is_adapted = is_training and prover.is_adapted
        batches = {"num_prompts": num_prompts, "num_samples": num_samples, "prompts_per_batch": prompts_per_batch}
        return sampling(prover, **batches, **texts, is_adapted=is_adapted)
    free = (amounts.memory - held) * (TRAINING_FREE_SHARE if is_training else FREE_SHARE)
    return compiled_sampling(prover, num_rows=num_prompts * num_samples, **texts, free_bytes=max(0, free))


def _test_writings(amounts: Amounts) -> list[Writing]:
    on_test = amounts.num_problems("test"), amounts.recipe.mint.test_solutions_per_problem
    return [Writing(role, *on_test) for role in GAME_ROLES]


def _as_scorer(amounts: Amounts, verifier: PlayerSize) -> PlayerSize:
    """Size of the frozen verifier. Its base may be in a higher precision than in training with an adapter."""
    dtype = amounts.hardware.dtype(amounts.recipe.verifier.dtype, is_precise=True)
    return replace(verifier, weight_bytes=dtype.itemsize)


def _scoring(amounts: Amounts, sizes: Sizes, num_solutions: float) -> Work:
    return verifier_costs(amounts.recipe).scoring(amounts, _as_scorer(amounts, sizes["verifier"]), num_solutions)


def _verifier_bytes(amounts: Amounts, sizes: Sizes) -> float:
    """Memory of the verifier's weights in addition to the prover's: only its adapter if it shares the prover's base."""
    size = _as_scorer(amounts, sizes["verifier"])
    return size.num_trained * size.trained_bytes if amounts.recipe.verifier.shares_base else size.frozen_bytes
