"""What each phase of a game does: its tokens by kind of work, and its peak memory."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from accelerate.utils import parse_flag_from_env

from pvg_hf.check.amounts import Amounts, Length
from pvg_hf.check.player_sizes import PlayerSize, critic_bytes
from pvg_hf.check.verifiers import VERIFIER_COSTS, VerifierCosts, describe_micro_batch
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.stopwatch import EVALUATING, SCORING, TRAINING, WRITING
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.static_sampler import FREE_SHARE, TRAINING_FREE_SHARE

Sizes = Mapping[str, PlayerSize]  # of `prover`, `verifier` and PPO's `critic`


class PhaseCosts(Protocol):
    """Protocol of a phase's amounts and memory, with one implementation for each phase."""

    def describe(self, amounts: Amounts) -> str:
        """Describe what the phase does in a few words and numbers."""

    def tokens(self, amounts: Amounts) -> dict[str, float]:
        """
        Return the number of tokens by kind of work, as [`~pvg_hf.core.stopwatch`] counts them: written ones without prompts,
        scored and trained ones with them. Texts have their mean length, and no training stops early.
        """

    def memory(self, amounts: Amounts, sizes: Sizes) -> float:
        """Return the peak memory of a process in bytes, including the players' weights."""


@dataclass(frozen=True)
class Writing:
    """`num_samples` solutions for each of `num_problems` problems in a role."""

    role: Role
    num_problems: int
    num_samples: int

    @property
    def number(self) -> int:
        """Number of solutions."""
        return self.num_problems * self.num_samples

    def memory(self, amounts: Amounts, prover: PlayerSize, held: float) -> float:
        """Return the memory of writing them, while `held` bytes are taken by weights."""
        per_batch = amounts.recipe.mint.problems_per_batch or Sampler.default_prompts_per_batch
        prompts = self.num_problems / amounts.num_processes
        rows, at_once = prompts * self.num_samples, min(per_batch, prompts) * self.num_samples
        return _writing_memory(amounts, prover, held, amounts.lengths.prompt[self.role], rows, at_once, FREE_SHARE)


class WarmupCosts:
    def describe(self, amounts: Amounts) -> str:
        parts = []
        for name, config in amounts.recipe.players.items():
            if config.warmup:
                parts.append(f"{name}: {config.warmup.max_steps:,} steps of {config.warmup.batch_size} references")
            elif config.scratch:
                parts.append(f"{name}: random weights")
        return "; ".join(parts)

    def tokens(self, amounts: Amounts) -> dict[str, float]:
        warmups = [config.warmup for config in amounts.recipe.players.values() if config.warmup]
        num_texts = sum(warmup.max_steps * warmup.batch_size for warmup in warmups)
        return {TRAINING: num_texts * (amounts.lengths.prompt[Role.HELPFUL].mean + amounts.lengths.solution.mean)}

    def memory(self, amounts: Amounts, sizes: Sizes) -> float:
        peaks = [0.0]
        for name, config in amounts.recipe.players.items():
            if config.warmup:
                whole = replace(
                    sizes[name], num_trained=sizes[name].num_parameters, trained_bytes=sizes[name].weight_bytes
                )
                text = (amounts.lengths.prompt[Role.HELPFUL] + amounts.lengths.solution).cap(config.warmup.max_length)
                rows, width = (
                    config.warmup.batch_size // amounts.num_processes,
                    text.mean,
                )  # sorted, with little padding
                batch = whole.backward_bytes(rows, width, num_logits=width, recomputes=False)
                peaks.append(whole.training_bytes + batch)
        return max(peaks)


class BootstrapCosts:
    def describe(self, amounts: Amounts) -> str:
        bootstrap, on_test = amounts.recipe.bootstrap, f"{amounts.num_test_solutions:,} on test"
        if bootstrap.import_from:
            return f"solutions from {bootstrap.import_from}; {on_test}"
        return f"{amounts.num_verifier_problems * bootstrap.solutions_per_problem:,} solutions on D_V, {on_test}"

    def writings(self, amounts: Amounts) -> list[Writing]:
        """List what the prover writes."""
        bootstrap = amounts.recipe.bootstrap
        base = Writing(Role.BASE, amounts.num_verifier_problems, bootstrap.solutions_per_problem)
        return [*_test_writings(amounts), *([] if bootstrap.import_from else [base])]

    def tokens(self, amounts: Amounts) -> dict[str, float]:
        return {WRITING: _written(amounts, self.writings(amounts))}

    def memory(self, amounts: Amounts, sizes: Sizes) -> float:
        prover, held = sizes["prover"], sizes["prover"].frozen_bytes
        return held + max(writing.memory(amounts, prover, held) for writing in self.writings(amounts))


class VerifierPhaseCosts:
    def describe(self, amounts: Amounts) -> str:
        return _verifier(amounts).describe_training(amounts)

    def tokens(self, amounts: Amounts) -> dict[str, float]:
        verifier, number = _verifier(amounts), amounts.num_problems("verifier_heldout")
        heldout = number * amounts.recipe.data.solutions_per_problem * verifier.scored_tokens(amounts)
        return {**verifier.training_tokens(amounts), EVALUATING: heldout}

    def memory(self, amounts: Amounts, sizes: Sizes) -> float:
        """Memory of the training, and of a second copy that then scores held-out solutions, as the verifier is used later."""
        verifier = sizes["verifier"]
        scoring = _as_scorer(amounts, verifier).frozen_bytes + _scoring_memory(amounts, verifier)
        return verifier.training_bytes + max(_verifier(amounts).training_memory(amounts, verifier), scoring)


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

    def tokens(self, amounts: Amounts) -> dict[str, float]:
        config, solution, scored = (
            amounts.recipe.prover,
            amounts.lengths.solution.mean,
            _verifier(amounts).scored_tokens(amounts),
        )
        number = config.total_batches * amounts.solutions_per_step
        selecting = self._num_selecting(amounts)
        return {
            WRITING: number * solution + _written(amounts, _honest_writings(amounts)),
            SCORING: number * scored,
            TRAINING: number * config.steps_per_batch * (amounts.training_prompt.mean + solution),
            **({EVALUATING: selecting * (solution + scored)} if selecting else {}),
        }

    def _num_selecting(self, amounts: Amounts) -> int:
        """Number of held-out solutions that select the best helpful checkpoint."""
        config = amounts.recipe.prover
        if Role.HELPFUL not in config.trained_roles:
            return 0
        num_evaluations = 1 + -(-config.training_of(Role.HELPFUL).max_steps // config.evaluation_steps)
        return (
            num_evaluations * min(config.eval_problems, amounts.num_problems("prover_heldout")) * config.eval_samples
        )

    def memory(self, amounts: Amounts, sizes: Sizes) -> float:
        prover, config = sizes["prover"], amounts.recipe.prover
        # An adapter's reference is the base below it; full weights need a second copy.
        reference = prover.frozen_bytes if config.beta and not config.lora else 0
        critic = critic_bytes(config, sizes["critic"]) if config.has_critic else 0
        held = prover.training_bytes + reference + critic + _verifier_bytes(amounts, sizes)
        share = amounts.solutions_per_step // amounts.num_processes
        written = _writing_memory(amounts, prover, held, amounts.training_prompt, share, share, TRAINING_FREE_SHARE)
        peaks = [written, _scoring_memory(amounts, sizes["verifier"])]
        peaks.append(
            self._learning_memory(amounts, sizes, share) + (written if is_compiled(amounts) else 0)
        )  # its cache stays
        peaks += [writing.memory(amounts, prover, held) for writing in _honest_writings(amounts)]
        if self._num_selecting(amounts) and not is_compiled(amounts):  # else it is written in the cache that stays
            heldout = min(config.eval_problems, amounts.num_problems("prover_heldout"))
            peaks.append(Writing(Role.HELPFUL, heldout, config.eval_samples).memory(amounts, prover, held))
        return held + max(peaks)

    def _learning_memory(self, amounts: Amounts, sizes: Sizes, share: int) -> float:
        """Memory of the backward pass, which goes through prover and critic at the same time."""
        config, solution = amounts.recipe.prover, amounts.lengths.solution
        rows, width = config.rows_at_once(share), (amounts.training_prompt + solution).high
        how = {"recomputes": config.recomputes, "is_tiled": True}
        of_critic = sizes["critic"].backward_bytes(rows, width, **how) if config.has_critic else 0
        return of_critic + sizes["prover"].backward_bytes(rows, width, num_logits=solution.high, **how)


class MintCosts:
    def describe(self, amounts: Amounts) -> str:
        on_pool = len(GAME_ROLES) * amounts.num_verifier_problems * amounts.recipe.mint.solutions_per_problem
        return f"{on_pool:,} solutions on D_V, {amounts.num_test_solutions:,} on test"

    def writings(self, amounts: Amounts) -> list[Writing]:
        """List what the prover writes."""
        mint = amounts.recipe.mint
        on_heldout = amounts.num_problems("verifier_heldout"), mint.test_solutions_per_problem
        pool = [Writing(role, amounts.num_verifier_problems, mint.solutions_per_problem) for role in GAME_ROLES]
        return [*_test_writings(amounts), *pool, Writing(Role.HELPFUL, *on_heldout)]

    def tokens(self, amounts: Amounts) -> dict[str, float]:
        """Return tokens of solutions and scores; if the verifier labels proofs, also of its analyses and their checks."""
        verifier, written = _verifier(amounts), self.writings(amounts)
        scored = sum(writing.number for writing in written) * verifier.scored_tokens(amounts)
        return {WRITING: _written(amounts, written), SCORING: scored + verifier.labelling_tokens(amounts)}

    def memory(self, amounts: Amounts, sizes: Sizes) -> float:
        held = sizes["prover"].frozen_bytes + _verifier_bytes(amounts, sizes)
        writing = max(writing.memory(amounts, sizes["prover"], held) for writing in self.writings(amounts))
        return held + max(writing, _scoring_memory(amounts, sizes["verifier"]))


class EvaluateCosts:
    def describe(self, amounts: Amounts) -> str:
        return (
            f"{amounts.num_test_solutions:,} base solutions on test scored, {amounts.num_crossed_solutions:,} of other rounds or by "
            "their verifiers (mean)"
        )

    def tokens(self, amounts: Amounts) -> dict[str, float]:
        number = amounts.num_test_solutions + amounts.num_crossed_solutions
        return {SCORING: number * _verifier(amounts).scored_tokens(amounts)}

    def memory(self, amounts: Amounts, sizes: Sizes) -> float:
        return _as_scorer(amounts, sizes["verifier"]).frozen_bytes + _scoring_memory(amounts, sizes["verifier"])


PHASE_COSTS: dict[str, PhaseCosts] = {
    "warmup": WarmupCosts(),
    "bootstrap": BootstrapCosts(),
    "verifier": VerifierPhaseCosts(),
    "prover": ProverCosts(),
    "mint": MintCosts(),
    "evaluate": EvaluateCosts(),
}


def is_compiled(amounts: Amounts) -> bool:
    """
    Whether solutions are assumed to be written by a compiled `generate`: on a GPU, whatever the engine.

    vLLM and continuous batching have no formula of their own.
    """
    return amounts.hardware.has_gpu and not parse_flag_from_env("ACCELERATE_USE_FSDP")


def _writing_memory(
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


def _test_writings(amounts: Amounts) -> list[Writing]:
    on_test = amounts.num_problems("test"), amounts.recipe.mint.test_solutions_per_problem
    return [Writing(role, *on_test) for role in GAME_ROLES]


def _honest_writings(amounts: Amounts) -> list[Writing]:
    """List the solutions that the prover writes before its training, so that sneaky prompts can show them."""
    if not amounts.recipe.task.shows_own_solutions or Role.SNEAKY not in amounts.recipe.prover.trained_roles:
        return []
    return [Writing(Role.HELPFUL, amounts.num_problems("prover"), amounts.recipe.mint.solutions_per_problem)]


def _written(amounts: Amounts, writings: list[Writing]) -> float:
    """Number of tokens that are written."""
    return amounts.lengths.solution.mean * sum(writing.number for writing in writings)


def _verifier(amounts: Amounts) -> VerifierCosts:
    return VERIFIER_COSTS[amounts.recipe.verifier.kind]


def _as_scorer(amounts: Amounts, verifier: PlayerSize) -> PlayerSize:
    """Size of the frozen verifier. Its base may be in a higher precision than in training with an adapter."""
    dtype = amounts.hardware.dtype(amounts.recipe.verifier.dtype, is_precise=True)
    return replace(verifier, weight_bytes=dtype.itemsize)


def _scoring_memory(amounts: Amounts, verifier: PlayerSize) -> float:
    return _verifier(amounts).scoring_memory(amounts, _as_scorer(amounts, verifier))


def _verifier_bytes(amounts: Amounts, sizes: Sizes) -> float:
    """Memory of the verifier's weights in addition to the prover's: only its adapter if it shares the prover's base."""
    size = _as_scorer(amounts, sizes["verifier"])
    return size.num_trained * size.trained_bytes if amounts.recipe.verifier.shares_base else size.frozen_bytes
