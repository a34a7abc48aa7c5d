"""Whether a verifier that writes, and a prover that evaluates itself, can be what the recipe says."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pvg_hf.config.sections import DataConfig, VerifierConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.game.plan.trainer_checks import refused_fields
from pvg_hf.game.players import score_prompts
from pvg_hf.game.score_rows import PROOF_SCORE
from pvg_hf.game.trainer_args import score_arguments, score_settings
from pvg_hf.models.sources import resolve_model
from pvg_hf.tasks.rated import RatesAnalyses
from pvg_hf.trainers.score_verifier_config import ScoreVerifierConfig

# What only a head on pairs has.
_OF_PAIRS = (
    "loss",
    "correction",
    "invariance",
    "center",
    "pairs_per_step",
    "template",
    "max_length",
    "tokens_per_batch",
    "shares_base",
)


def check_score_verifier(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `verifier` where its kind is `score`."""
    config, defaults = context.recipe.verifier, VerifierConfig()
    for name in _OF_PAIRS:
        if vars(config)[name] != vars(defaults)[name]:
            yield f"`verifier.{name}` is for `verifier.kind: bradley_terry`, and `kind` is `score`; leave it out."
    yield from _check_data(context)
    if config.init == "head_only":
        yield "`verifier.init` is `head_only`, and a verifier of kind `score` has no head; take `full` or `warm`."
    if config.save_steps not in ("auto", None):
        yield "`verifier.save_steps`: a verifier of kind `score` is saved where it is validated; set `verifier.score.eval_steps`."
    yield from _check_noise(context)
    yield from _check_task(context)
    settings = score_settings(context, Path("checkpoints"))
    refused = list(refused_fields("verifier", config, ScoreVerifierConfig, settings))
    yield from refused or refusals("`verifier`", partial(_make_arguments, context))


def check_self_evaluation(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `prover.self_evaluation`."""
    prover, where = context.recipe.prover, "`prover.self_evaluation` is set"
    if prover.self_evaluation is None:
        return
    if context.recipe.verifier.kind != "score":
        yield f"{where}, and its own score is held against the verifier's, which lies in [0, 1] with `verifier.kind: score` only."
    if prover.roles != "helpful_only":
        yield f"{where}, which pays for honesty: it needs `prover.roles: helpful_only`; got `{prover.roles}`."
    if "helpful" not in context.recipe.task.prompts:
        yield f"{where}, and its prompt must ask for the evaluation: write one in `task.prompts.helpful`."
    if prover.algorithm != "grpo":
        yield f"{where}, which needs `prover.algorithm: grpo`; got `{prover.algorithm}`."
    if prover.reward_correction != "none":
        yield f"{where} and takes the place of `prover.reward`; leave out `prover.reward_correction`."


def _check_data(context: PhaseContext) -> Iterator[str]:
    data, defaults = context.recipe.data, DataConfig()
    for name in ("pairs", "pair_share", "solutions_per_problem"):
        if vars(data)[name] != vars(defaults)[name]:
            yield f"`data.{name}` chooses pairs, and a verifier of kind `score` learns from single proofs; leave it out."


def _check_noise(context: PhaseContext) -> Iterator[str]:
    noise = context.recipe.noise
    if not (noise.is_any and noise.is_for_verifier):
        return
    if noise.flips_in_training:
        yield "`noise` is to flip labels of pairs in training, and a verifier of kind `score` has no pairs: let it flip the pool's."
    if context.world is not None and PROOF_SCORE in context.world.task.detail_columns:
        yield "`noise` flips labels, and a verifier of kind `score` is told the scores of this task's proofs; leave it out."


def _check_task(context: PhaseContext) -> Iterator[str]:
    score = context.recipe.verifier.score_settings
    if context.world is None or isinstance(context.world.task, RatesAnalyses):
        return
    task = f"the task `{context.recipe.task.name}` knows no issues of proofs"
    if score.meta_verifier == "task":
        yield f"`verifier.score.meta_verifier` is `task`, and {task}; take `initial` or `none`."
    if score.judge_share > 0:
        yield f"`verifier.score.judge_share` is {score.judge_share}, and {task}, so that it writes no analyses; leave it out."


def _make_arguments(context: PhaseContext) -> None:
    source = resolve_model(context.recipe.verifier.model, "verifier")
    is_here = Path(source).is_dir()  # what is stored on the Hub is for the training to fetch
    settings = score_prompts(context, source if is_here else "")
    score_arguments(context, Path("checkpoints"), settings)
