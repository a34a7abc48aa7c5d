"""Checks of a recipe's verifier that depend on its kind."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

from pvg_hf.check.refusals import refusals
from pvg_hf.check.trainer_settings import ANYWHERE, check_batch_sizes, refused_fields
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.config.sections import DataConfig
from pvg_hf.data.label_rates import Rates
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.sources import resolve_model
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


class VerifierChecks(Protocol):
    """Protocol of the checks of a recipe's verifier, with one implementation for each value of `verifier.kind`."""

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        """List mistakes in `verifier`, `data` and `noise` that the verifier's trainer would refuse."""

    def check_task(self, recipe: Recipe, task: Task) -> Iterator[str]:
        """List mistakes in `verifier` that depend on the task."""

    def can_continue(self, config: VerifierConfig, before: VerifierConfig) -> bool:
        """Whether the weights of the previous round's verifier, which is of the same kind, fit the round's settings."""


class PairChecks:
    """Checks of a verifier that is trained on pairs."""

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        uneven = list(check_batch_sizes(recipe, "verifier", hardware.num_processes))
        if uneven:
            yield from uneven
            return
        run = TrainerRun(ANYWHERE, hardware)
        settings = verifier_settings(recipe, run, label_rates=label_rates, assumed_rates=assumed_rates)
        refused = list(refused_fields("verifier", recipe.verifier, NoisyRewardConfig, settings))
        make = partial(verifier_arguments, recipe, run, label_rates=label_rates, assumed_rates=assumed_rates)
        yield from refused or refusals("`verifier`", make)

    def check_task(self, recipe: Recipe, task: Task) -> Iterator[str]:
        """List no mistake: pairs can be made of any task's solutions."""
        yield from ()

    def can_continue(self, config: VerifierConfig, before: VerifierConfig) -> bool:
        return True  # its adapter is loaded with its settings, and trained further


class LikelihoodChecks(PairChecks):
    """Checks of a verifier that scores by likelihood: those of pairs, and none of its settings may need a head."""

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        config = recipe.verifier
        if config.init == "head_only":
            yield f"`verifier.init` is `head_only`, {_HEADLESS}; take `full` or `warm`."
        if config.head == "keep":
            yield f"`verifier.head` is `keep`, {_HEADLESS}; leave it out."
        yield from super().check_trainer(recipe, hardware, label_rates=label_rates, assumed_rates=assumed_rates)


class ScoreChecks:
    """Checks of a generative verifier, which is trained on single proofs."""

    def check_trainer(
        self, recipe: Recipe, hardware: Hardware, *, label_rates: Rates, assumed_rates: Rates
    ) -> Iterator[str]:
        config, defaults = recipe.verifier, VerifierConfig()
        for name in config.pair_keys():
            if vars(config)[name] != vars(defaults)[name]:
                yield f"`verifier.{name}` is for a verifier that learns from pairs, and `kind` is `score`; leave it out."
        yield from _check_data(recipe.data)
        if config.init == "head_only":
            yield "`verifier.init` is `head_only`, and a verifier of kind `score` has no head; take `full` or `warm`."
        if config.save_steps not in ("auto", None):
            yield "`verifier.save_steps`: a verifier of kind `score` is saved where it is validated; set `verifier.score.eval_steps`."
        if _has_verifier_noise(recipe) and recipe.noise.flips_in_training:
            yield (
                "`noise` flips labels of pairs in training, and a verifier of kind `score` has no pairs: use noise of the pool's "
                "labels (`level: label`, `resample: fixed`, without `soft_labels` and without a schedule over `steps`)."
            )
        uneven = list(check_batch_sizes(recipe, "verifier", hardware.num_processes))
        if uneven:
            yield from uneven
            return
        run = TrainerRun(ANYWHERE, hardware)
        settings = score_settings(config, run)
        refused = list(refused_fields("verifier", config, ScoreVerifierConfig, settings))
        yield from refused or refusals("`verifier`", partial(_make_score_arguments, config, run))

    def check_task(self, recipe: Recipe, task: Task) -> Iterator[str]:
        if _has_verifier_noise(recipe) and PROOF_SCORE in task.detail_columns:
            yield "`noise` flips labels, and a verifier of kind `score` learns from the scores of this task's proofs; leave it out."
        score = recipe.verifier.score_settings
        if isinstance(task, RatesAnalyses):
            return
        lacks = f"the task `{recipe.task.name}` does not implement `RatesAnalyses`"
        if score.meta_verifier == "task":
            yield f"`verifier.score.meta_verifier` is `task`, and {lacks}; take `initial` or `none`."
        if score.judge_share > 0:
            yield f"`verifier.score.judge_share` is {score.judge_share}, and {lacks}, which writes the analyses; leave it out."

    def can_continue(self, config: VerifierConfig, before: VerifierConfig) -> bool:
        return config.lora == before.lora  # the last round's adapter is copied into a new one


def _check_data(data: DataConfig) -> Iterator[str]:
    defaults = DataConfig()
    for name in ("pairs", "pair_share", "solutions_per_problem"):
        if vars(data)[name] != vars(defaults)[name]:
            yield f"`data.{name}` chooses pairs, and a verifier of kind `score` learns from single proofs; leave it out."


def _has_verifier_noise(recipe: Recipe) -> bool:
    return recipe.noise.is_any and recipe.noise.is_for_verifier


def _make_score_arguments(config: VerifierConfig, run: TrainerRun) -> None:
    source = resolve_model(config.model, "verifier")
    is_here = Path(source).is_dir()  # prompts stored with a model on the Hub are downloaded by the training
    score_arguments(config, run, config.score_settings.prompts_for(source if is_here else ""))
