"""Checks of the settings of each kind of verifier, and the tokens and memory that its training and its scores take."""

from collections.abc import Iterator
from functools import partial
from math import ceil
from pathlib import Path
from typing import Protocol

from pvg_hf.check.phase_costs import Amounts, describe_micro_batch
from pvg_hf.check.player_sizes import PlayerSize
from pvg_hf.check.trainer_settings import check_arguments
from pvg_hf.config import Recipe
from pvg_hf.config.noise_section import NoiseConfig
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.stopwatch import TRAINING, WRITING
from pvg_hf.data.label_rates import Rates
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.sources import resolve_model
from pvg_hf.sampling import Sampler
from pvg_hf.scoring.batching import CPU_TOKENS
from pvg_hf.tasks.base import PROOF_SCORE, RatesAnalyses, Task
from pvg_hf.trainers.arguments import (
    TrainerRun,
    score_arguments,
    score_settings,
    verifier_arguments,
    verifier_settings,
)
from pvg_hf.trainers.generative.config import ScoreVerifierConfig
from pvg_hf.trainers.reward.config import NoisyRewardConfig

_HEADLESS = "and a verifier of kind `likelihood` has no head"

_POOL_NOISE = "`level: label`, `resample: fixed`, without `soft_labels` and without a schedule over `steps`"

_OF_PAIRS = ("pairs", "pair_share", "solutions_per_problem")  # keys of `data`


class VerifierPlanning(Protocol):
    """
    Protocol of the checks and costs of a recipe's verifier, for each value of `verifier.kind`. Memory is in bytes,
    without weights.
    """

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        """List mistakes in `verifier`, `data` and `noise` that the verifier's trainer would refuse."""

    def check_task(self, recipe: Recipe, task: Task) -> Iterator[str]:
        """List mistakes in `verifier` that depend on the task."""

    def can_continue(self, config: VerifierConfig, before: VerifierConfig) -> bool:
        """
        Whether the weights of the previous round's verifier, which is of the same kind, fit the round's settings.
        """

    def describe_training(self, amounts: Amounts) -> str: ...

    def training_tokens(self, amounts: Amounts) -> dict[str, float]: ...  # by kind of work

    def training_memory(self, amounts: Amounts, size: PlayerSize) -> float: ...

    def scored_tokens(self, amounts: Amounts) -> float: ...  # that are read, or written, to score a solution

    def scoring_memory(self, amounts: Amounts, size: PlayerSize) -> float: ...

    def labelling_tokens(self, amounts: Amounts) -> float: ...  # that are written to label a round's new proofs


class PairPlanning:
    """A verifier that is trained on pairs and reads every solution once."""

    has_logits = False  # over the vocabulary, at every position

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        config, noise = recipe.verifier, recipe.noise
        if config.eval_steps is not None:
            yield from _check_saves(config, "verifier.eval_steps")
            if _has_verifier_noise(noise) and noise.flips_in_training:
                yield (
                    f"`verifier.eval_steps` is {config.eval_steps}, and `noise` flips labels in training only, so that"
                    " the verifier would be chosen by clean ones: leave it out, or use noise of the pool's labels"
                    f" ({_POOL_NOISE})."
                )
        settings = partial(verifier_settings, recipe, label_rates=label_rates, assumed_rates=assumed_rates)
        make = partial(verifier_arguments, recipe, label_rates=label_rates, assumed_rates=assumed_rates)
        yield from check_arguments(recipe, "verifier", hardware, NoisyRewardConfig, settings, make)

    def check_task(self, recipe: Recipe, task: Task) -> Iterator[str]:
        """List no mistake: pairs can be made of any task's solutions."""
        yield from ()

    def can_continue(self, config: VerifierConfig, before: VerifierConfig) -> bool:
        return True  # its adapter is loaded with its settings, and trained further

    def describe_training(self, amounts: Amounts) -> str:
        config, most = amounts.recipe.verifier, amounts.max_pairs
        steps, pairs = config.max_steps, config.pairs_per_step
        return (
            f"{steps:,} steps of {pairs:,} pairs{describe_micro_batch(config)}; at most {most:,} pairs "
            f"({steps * pairs / most:.1f} epochs)"
        )

    def training_tokens(self, amounts: Amounts) -> dict[str, float]:
        config = amounts.recipe.verifier
        return {TRAINING: config.max_steps * config.pairs_per_step * 2 * amounts.lengths.verifier_input.mean}

    def training_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        config, width = amounts.recipe.verifier, amounts.lengths.verifier_input.high
        pairs = config.rows_at_once(config.pairs_per_step // amounts.num_processes)
        num_logits = width if self.has_logits else 0
        return size.backward_bytes(2 * pairs, width, num_logits=num_logits, recomputes=config.recomputes)

    def scored_tokens(self, amounts: Amounts) -> float:
        return amounts.lengths.verifier_input.mean

    def scoring_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        return size.reading_bytes(amounts.recipe.verifier.tokens_per_batch or CPU_TOKENS)

    def labelling_tokens(self, amounts: Amounts) -> float:
        return 0  # the task itself labels solutions


class LikelihoodPlanning(PairPlanning):
    """A verifier that is trained on pairs and scores by likelihood, so that none of its settings may need a head."""

    has_logits = True

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        config = recipe.verifier
        if config.init == "head_only":
            yield f"`verifier.init` is `head_only`, {_HEADLESS}; take `full` or `warm`."
        if config.head == "keep":
            yield f"`verifier.head` is `keep`, {_HEADLESS}; leave it out."
        yield from super().check_trainer(recipe, hardware, label_rates=label_rates, assumed_rates=assumed_rates)


class ScorePlanning:
    """
    A generative verifier, trained on single proofs. It writes analyses, assumed to be half as long as they may be.
    """

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        config = recipe.verifier
        for section, names, purpose in (
            ("verifier", config.pair_keys(), "is for a verifier that learns from pairs, and `kind` is `score`"),
            ("data", _OF_PAIRS, "chooses pairs, and a verifier of kind `score` learns from single proofs"),
        ):
            values, defaults = vars(vars(recipe)[section]), vars(vars(Recipe())[section])
            yield from (
                f"`{section}.{name}` {purpose}; leave it out." for name in names if values[name] != defaults[name]
            )
        if config.init == "head_only":
            yield "`verifier.init` is `head_only`, and a verifier of kind `score` has no head; take `full` or `warm`."
        yield from _check_saves(config, "verifier.score.eval_steps")
        if _has_verifier_noise(recipe.noise) and recipe.noise.flips_in_training:
            yield (
                "`noise` flips labels of pairs in training, and a verifier of kind `score` has no pairs: use noise of"
                f" the pool's labels ({_POOL_NOISE})."
            )
        settings, make = partial(score_settings, config), partial(_make_score_arguments, config)
        yield from check_arguments(recipe, "verifier", hardware, ScoreVerifierConfig, settings, make)

    def check_task(self, recipe: Recipe, task: Task) -> Iterator[str]:
        if _has_verifier_noise(recipe.noise) and PROOF_SCORE in task.detail_columns:
            yield (
                "`noise` flips labels, and a verifier of kind `score` learns from the scores of this task's proofs;"
                " leave it out."
            )
        score = recipe.verifier.score_settings
        if isinstance(task, RatesAnalyses):
            return
        lacks = f"the task `{recipe.task.name}` does not implement `RatesAnalyses`"
        if score.meta_verifier == "task":
            yield f"`verifier.score.meta_verifier` is `task`, and {lacks}; take `initial` or `none`."
        if score.judge_share > 0:
            yield (
                f"`verifier.score.judge_share` is {score.judge_share}, and {lacks}, which writes the analyses; leave"
                " it out."
            )

    def can_continue(self, config: VerifierConfig, before: VerifierConfig) -> bool:
        return config.lora == before.lora  # the last round's adapter is copied into a new one

    def describe_training(self, amounts: Amounts) -> str:
        steps, score = amounts.recipe.verifier.max_steps, amounts.recipe.verifier.score_settings
        at_once = describe_micro_batch(amounts.recipe.verifier)
        return f"{steps:,} steps of {score.proofs_per_step} proofs x {score.num_generations} evaluations{at_once}"

    def training_tokens(self, amounts: Amounts) -> dict[str, float]:
        config, score = amounts.recipe.verifier, amounts.recipe.verifier.score_settings
        analysis, number = score.max_completion_length / 2, config.max_steps * config.rows_per_step
        return {WRITING: number * analysis, TRAINING: number * (amounts.lengths.verifier_input.mean + analysis)}

    def training_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        config, score = amounts.recipe.verifier, amounts.recipe.verifier.score_settings
        num_proofs, longest = score.proofs_per_step / amounts.num_processes, score.max_completion_length
        rows = config.rows_at_once(ceil(num_proofs * score.num_generations))
        width = amounts.lengths.verifier_input.high + longest
        learning = size.backward_bytes(rows, width, num_logits=longest, recomputes=config.recomputes, is_tiled=True)
        at_once = min(Sampler.default_prompts_per_batch, max(num_proofs, score.eval_proofs))
        return max(learning, size.loop_bytes(at_once * score.num_generations, width))

    def scored_tokens(self, amounts: Amounts) -> float:
        score = amounts.recipe.verifier.score_settings
        return score.num_analyses * score.max_completion_length / 2

    def scoring_memory(self, amounts: Amounts, size: PlayerSize) -> float:
        score = amounts.recipe.verifier.score_settings
        width = amounts.lengths.verifier_input.high + score.max_completion_length
        samples = max(
            score.num_analyses, *((score.label_analyses, score.label_checks) if score.labels == "auto" else (0,))
        )
        return size.loop_bytes(Sampler.default_prompts_per_batch * samples, width)

    def labelling_tokens(self, amounts: Amounts) -> float:
        score = amounts.recipe.verifier.score_settings
        if score.labels != "auto":
            return 0
        num_new = 2 * amounts.num_problems("verifier") * amounts.recipe.mint.solutions_per_problem
        return num_new * score.label_analyses * (1 + score.label_checks) * score.max_completion_length / 2


def _check_saves(config: VerifierConfig, key: str) -> Iterator[str]:
    if config.save_steps not in ("auto", None):
        yield f"`verifier.save_steps`: this verifier is saved where it is validated; set `{key}`."


def _has_verifier_noise(noise: NoiseConfig) -> bool:
    return noise.is_any and noise.is_for_verifier


def _make_score_arguments(config: VerifierConfig, run: TrainerRun) -> None:
    source = resolve_model(config.model, "verifier")
    is_here = Path(source).is_dir()  # prompts stored with a model on the Hub are downloaded by the training
    score_arguments(config, run, config.score_settings.prompts_for(source if is_here else ""))
