"""Evaluates the games of a replicated recipe: what is behind the tables of one experiment, in one resumable call."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Literal

from experiments.replication import Replicate, replicate_recipe, work_on_seeds
from pvg_hf.config import Recipe
from pvg_hf.core.roles import Role
from pvg_hf.experimental.attacks.attack_job import AttacksFailedError, Workforce
from pvg_hf.experimental.judging.evaluation_names import split_settings
from pvg_hf.experimental.judging.round_evaluations import EVALUATIONS
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.run.layout import RunFolder, unfinished

logger = logging.getLogger(__name__)

AttackedRounds = Literal["ends", "all"]

Stage = tuple[str, list[int | Literal["all"]]]  # an evaluation, and the rounds that it is computed for


def evaluate_replicates(
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    overrides: Sequence[str] = (),
    attacked: AttackedRounds = "ends",
    num_workers: int = 1,
) -> None:
    """
    Evaluate the finished games of [`~experiments.replication.replicate`]. Results that are stored are not computed again.

    All evaluations are computed: those that are not costly for every round, `attacks` for the rounds of `attacked`, then
    `regression`, which tests what all attacks have found, and `legibility_tax` for the last round, if its helpful role was
    trained by the verifier's score alone.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]), seeds (`Sequence[int]`):
            As in [`~experiments.replication.replicate`]. A game that is not finished is left out.
        overrides (`Sequence[str]`, *optional*):
            Settings of the evaluations as `NAME.key=value`, the same for all seeds.
        attacked (`str`, defaults to `"ends"`):
            Whether the first and the last round's verifier are attacked by trained attackers (`ends`), or `all`.
        num_workers (`int`, defaults to 1):
            Number of games evaluated at a time, each in a process.

    Raises:
        ValueError: for a setting of an unknown evaluation.
        CellsFailedError: if evaluations of some seeds failed; the results of the others are kept.
    """
    _, unknown = split_settings(overrides)
    if unknown:
        raise ValueError(
            f"`{unknown[0]}` is no setting of an evaluation; known are those of {', '.join(EVALUATIONS)}."
        )
    games = [replicate_recipe(recipe, seed) for seed in seeds]
    finished = [game.seed for game in games if not unfinished(game)]
    for game in games:
        if game.seed not in finished:
            logger.info("%s is not finished, and is not evaluated yet.", game.name)
    work_on_seeds(recipe, finished, partial(_evaluate_game, recipe, overrides, attacked), num_workers=num_workers)


def evaluation_stages(recipe: Recipe, attacked: AttackedRounds) -> list[Stage]:
    """List the evaluations of a finished game in the order in which they build on each other."""
    last = recipe.num_rounds - 1
    quick = [name for name, evaluation in EVALUATIONS.items() if not evaluation.is_costly and name != "regression"]
    stages: list[Stage] = [(name, ["all"]) for name in quick]
    stages.append(("attacks", ["all"] if attacked == "all" else sorted({0, last})))
    stages.append(("regression", ["all"]))
    prover = recipe.for_round(last).prover
    if Role.HELPFUL in prover.trained_roles and prover.self_evaluation is None:
        stages.append(("legibility_tax", [last]))
    return stages


def _evaluate_game(recipe: Recipe, overrides: Sequence[str], attacked: AttackedRounds, game: Replicate) -> None:
    played = replicate_recipe(recipe, game.seed)
    for name, rounds in evaluation_stages(played, attacked):
        settings = [override for override in overrides if override.startswith(f"{name}.")]
        for index in rounds:
            try:
                evaluate_run(
                    RunFolder.of(played).root,
                    round_index=index,
                    only=[name],
                    overrides=settings,
                    workforce=Workforce(num_workers=1),
                )
            except AttacksFailedError as err:  # concerns this seed only
                raise ValueError(str(err)) from err
