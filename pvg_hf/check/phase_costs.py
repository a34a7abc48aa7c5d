"""
Costs of a phase: lengths and numbers of its texts, its tokens by kind of work, its peak memory, and a description of
it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from accelerate.utils import parse_flag_from_env
from transformers import PreTrainedTokenizerBase

from pvg_hf.check.player_sizes import PlayerSize, critic_bytes, find_tokenizer, tokenizer_source
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig, VerifierConfig
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.stopwatch import EVALUATING, SCORING, TRAINING, WRITING
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.static_sampler import FREE_SHARE, TRAINING_FREE_SHARE

SAMPLE_SIZE = 200  # number of problems that are tokenized

CHARACTERS_PER_TOKEN = 4  # used if there is no tokenizer

LONGEST_OF_A_BATCH = 0.95  # quantile of lengths that a batch is assumed to be padded to


@dataclass(frozen=True)
class Length:
    """Length of one kind of text in tokens."""

    mean: float
    high: float  # that a batch is padded to
    longest: int  # of the sample

    @classmethod
    def of(cls, lengths: Sequence[int]) -> "Length":
        return cls(float(np.mean(lengths)), float(np.quantile(lengths, LONGEST_OF_A_BATCH)), max(lengths))

    def __add__(self, other: "Length") -> "Length":
        return Length(self.mean + other.mean, self.high + other.high, self.longest + other.longest)

    @classmethod
    def combine(cls, *lengths: "Length") -> "Length":
        """Length of several kinds of texts that share a batch."""
        return cls(
            sum(length.mean for length in lengths) / len(lengths),
            max(length.high for length in lengths),
            max(length.longest for length in lengths),
        )

    def cap(self, limit: int) -> "Length":
        return Length(min(self.mean, limit), min(self.high, limit), min(self.longest, limit))


@dataclass(frozen=True)
class TextLengths:
    """Lengths of a game's texts."""

    prompt: dict[Role, Length]  # with the chat template applied
    solution: Length  # of reference solutions with an end token, as an estimate of the prover's
    verifier_input: Length  # of problems with their reference solutions
    is_estimated: bool  # from characters, because a tokenizer was missing


def measure_lengths(recipe: Recipe, problems: GameProblems) -> TextLengths:
    """Measure lengths on `SAMPLE_SIZE` of the prover's problems (D_pi), evenly spread."""
    rows = problems.sample("prover", SAMPLE_SIZE)
    prover, verifier = (find_tokenizer(*tokenizer_source(recipe, player)) for player in recipe.players)
    references = [row["reference"] for row in rows]
    written = [tokens + 1 for tokens in _count(references, prover)]
    return TextLengths(
        prompt={role: Length.of(_count(_write_prompts(problems, rows, role, prover), prover)) for role in Role},
        solution=Length.of(written).cap(recipe.prover.max_completion_length),
        verifier_input=Length.of(_verifier_inputs(recipe.verifier, rows, verifier)).cap(recipe.verifier.max_length),
        is_estimated=prover is None or verifier is None,
    )


def _write_prompts(
    problems: GameProblems, rows: list[dict[str, Any]], role: Role, tokenizer: PreTrainedTokenizerBase | None
) -> list[str]:
    if tokenizer is None:  # which has the chat template
        return [problems.prompts.text(row, role, honest_solution=row["reference"]) for row in rows]
    return [problems.prompt(row, role, tokenizer) for row in rows]


def _verifier_inputs(
    config: VerifierConfig, rows: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase | None
) -> list[int]:
    end_token = tokenizer.eos_token if tokenizer else None
    verifier_input = VerifierInput.of(config, end_token)
    texts, references = ([row[column] for row in rows] for column in ("problem", "reference"))
    if tokenizer is None:
        return _count([verifier_input.render(*pair) for pair in zip(texts, references, strict=True)], None)
    return [len(ids) for ids in verifier_input.encode(tokenizer, texts, references)]


def _count(texts: list[str], tokenizer: PreTrainedTokenizerBase | None) -> list[int]:
    if tokenizer is None:
        return [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts]
    return [len(ids) for ids in tokenizer(texts)["input_ids"]]


@dataclass(frozen=True)
class Amounts:
    """Counts of a round, and of the phases before it."""

    recipe: Recipe  # with the round's overrides
    problems: GameProblems
    hardware: Hardware
    lengths: TextLengths
    memory: int = 0  # bytes of the GPU, or of this machine

    @property
    def num_processes(self) -> int:
        return self.hardware.num_processes

    def num_problems(self, *parts: str) -> int:
        """Number of problems in these parts of the split together."""
        return sum(len(self.problems.parts[part]) for part in parts)

    @property
    def num_verifier_problems(self) -> int:
        """Number of the verifier's problems (D_V) including held-out ones, for which solutions are minted."""
        return self.num_problems("verifier", "verifier_heldout")

    @property
    def max_pairs(self) -> int:
        """Number of the verifier's pairs if every problem has correct and incorrect solutions."""
        data, slots = self.recipe.data, self.recipe.data.solutions_per_problem
        of_problem = data.pair_share * slots * (slots - 1) / 2 if data.pairs == "all" else slots // 2
        return round(self.num_problems("verifier") * of_problem)

    @property
    def num_prompts(self) -> int:
        """Number of (problem, role) prompts of one training in the prover phase."""
        prover = self.recipe.prover
        return self.num_problems("prover") * len(prover.trained_roles) // prover.num_trainings

    @property
    def training_prompt(self) -> Length:
        """Length of prompts in the prover phase, in which the trained roles share a batch."""
        return Length.combine(*(self.lengths.prompt[role] for role in self.recipe.prover.trained_roles))

    @property
    def num_selecting_problems(self) -> int:
        """Number of held-out problems with which the best helpful checkpoint is selected."""
        return min(self.recipe.prover.eval_problems, self.num_problems("prover_heldout"))

    @property
    def num_selecting_solutions(self) -> int:
        """Number of solutions by which it is selected in a prover phase."""
        config = self.recipe.prover
        if Role.HELPFUL not in config.trained_roles:
            return 0
        num_evaluations = 1 + -(-config.training_of(Role.HELPFUL).max_steps // config.evaluation_steps)
        return num_evaluations * self.num_selecting_problems * config.eval_samples

    @property
    def num_test_solutions(self) -> int:
        """Number of solutions of test problems by both roles, in one round."""
        return len(GAME_ROLES) * self.num_problems("test") * self.recipe.mint.test_solutions_per_problem

    @property
    def num_crossed_solutions(self) -> int:
        """
        Number of solutions that an evaluation scores for the comparison with other rounds, in the mean over rounds.
        """
        rounds = np.minimum(np.arange(self.recipe.num_rounds), self.recipe.evaluation.crossed_rounds)
        return round(2 * rounds.mean() * self.num_test_solutions)  # other solutions, and by other verifiers


Sizes = Mapping[str, PlayerSize]  # of `prover`, `verifier` and PPO's `critic`


class Writing(NamedTuple):
    """`num_samples` solutions for each of `num_problems` problems in a role."""

    role: Role
    num_problems: int
    num_samples: int


def list_writings(phase: str, amounts: Amounts) -> list[Writing]:
    """
    List the solutions that the prover writes in a phase, except those that it learns from or that select a checkpoint.
    """
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
        f"{amounts.num_test_solutions:,} base solutions on test scored, {amounts.num_crossed_solutions:,} of other"
        " rounds or by their verifiers (mean)"
    )


def describe_micro_batch(config: PlayerConfig) -> str:
    """Describe how the rows of a step are divided, if a number says so: a recipe's, or what `auto` is on a GPU."""
    if not isinstance(config.micro_batch_size, int):
        return ""
    return f" ({config.micro_batch_size:,} at once{', activations recomputed' if config.recomputes else ''})"


def _describe_training(amounts: Amounts) -> str:
    prover = amounts.recipe.prover
    epochs = prover.num_batches * prover.prompts_per_step / amounts.num_prompts
    helpful = prover.training_of(Role.HELPFUL).max_steps
    each = " for each role" if prover.num_trainings > 1 else ""
    each = f" for the sneaky role and {helpful:,} for the helpful one" if helpful != prover.max_steps else each
    batches = "" if prover.steps_per_batch == 1 else f", {prover.steps_per_batch} on each batch"
    return (
        f"at most {prover.max_steps:,} steps{each}{batches} of {prover.prompts_per_step} prompts x"
        f" {prover.num_generations} solutions{describe_micro_batch(prover)}; {amounts.num_prompts:,} prompts"
        f" ({epochs:.1f} epochs)"
    )


def count_tokens(phase: str, amounts: Amounts) -> dict[str, float]:
    """
    Count the tokens of a phase by kind of work, as [`~pvg_hf.core.stopwatch`] does: written ones without prompts,
    scored and trained ones with them. Texts have their mean length, and no training stops early.
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
