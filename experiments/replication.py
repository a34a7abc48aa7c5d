"""
Play or resume a recipe once per seed, evaluate the games, and tabulate the seeds.

    python -m experiments.replication recipes/quickstart.yaml --seeds 0 1 2
    python -m experiments.replication recipes/quickstart.yaml --seeds 0 1 2 --evaluate attacks.max_steps=100
    python -m experiments.replication recipes/arithmetic.yaml prover.reward=cgc name=with-cgc --begin-with arithmetic
    python -m experiments.replication recipes/arithmetic.yaml --only-tables --against with-cgc

Runs are kept in `OUTPUT_DIR/NAME-seed-K`; a finished one is not played again, and an unfinished one resumes.
`--evaluate` adds all evaluations of docs/reference/figures.md, with fresh attackers against the verifiers of the first
and the last round, and resumes, too. The tables have means over seeds with the change over the rounds, each round's
figures, and every verifier on every prover's solutions. `OUTPUT_DIR/NAME-replication.json` has the raw figures.
`NAME-rounds`, `NAME-pools` and `NAME-attacks` there are plots of the means, `NAME-training` has each seed's training
curves, and `NAME-against-OTHER` and `NAME-against-OTHER-training` are those of a comparison (PNG, SVG, PDF).
"""

import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from experiments.command import recipe_parser, run_experiment
from experiments.legibility_tax import register
from experiments.replication_tables import replicate_recipe, tabulate_replication
from experiments.shared_phases import begin_with
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.roles import Role
from pvg_hf.experimental.judging.round_evaluations import EVALUATIONS
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.game.play import play
from pvg_hf.run.jobs import Job, run_jobs
from pvg_hf.run.layout import RunFolder, unfinished

logger = logging.getLogger(__name__)

AttackedRounds = Literal["ends", "all"]

Stage = tuple[str, list[int | Literal["all"]]]  # an evaluation, and the rounds that it is computed for


def main() -> int:
    parser = recipe_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1, help="games played or evaluated at a time (default: 1)")
    parser.add_argument(
        "--begin-with",
        metavar="NAME",
        help="take over bootstrap and first verifier of another replicated recipe, where they are the same",
    )
    parser.add_argument("--evaluate", action="store_true", help="run all evaluations of the finished games")
    parser.add_argument(
        "--attack-all", action="store_true", help="with --evaluate: attack the verifiers of all rounds, not of two"
    )
    parser.add_argument(
        "--only-tables", action="store_true", help="play nothing, and tabulate what is finished so far"
    )
    parser.add_argument(
        "--against", metavar="NAME", help="compare with another replicated recipe in the same output_dir, seed by seed"
    )
    arguments = parser.parse_intermixed_args()
    if arguments.workers < 1:
        parser.error(f"--workers is {arguments.workers}; it must be at least 1.")
    if arguments.attack_all and not arguments.evaluate:
        parser.error("--attack-all belongs to --evaluate.")

    def work() -> str:
        of_evaluations, of_recipe = split_settings(arguments.overrides)
        if of_evaluations and not arguments.evaluate:
            raise ValueError(f"`{of_evaluations[0]}` is a setting of an evaluation, which `--evaluate` runs.")
        recipe, seeds = load_recipe(arguments.recipe, of_recipe), arguments.seeds
        admit_recipe(recipe)
        if not arguments.only_tables:
            replicate(recipe, seeds, num_workers=arguments.workers, beginning=arguments.begin_with)
        if arguments.evaluate:
            attacked = "all" if arguments.attack_all else "ends"
            evaluate_replicates(
                recipe, seeds, overrides=of_evaluations, attacked=attacked, num_workers=arguments.workers
            )
        return tabulate_replication(recipe, seeds, against=arguments.against)

    return run_experiment(work)


def split_settings(overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """Divide settings into those of evaluations (`NAME.key=value`) and all others, such as those of a recipe."""
    register()
    sides: tuple[list[str], list[str]] = [], []
    for override in overrides:
        name, dot, _ = override.partition("=")[0].partition(".")
        sides[0 if dot and name in EVALUATIONS else 1].append(override)
    return sides


def replicate(recipe: Recipe, seeds: Sequence[int], *, num_workers: int = 1, beginning: str | None = None) -> None:
    """
    Play or resume a recipe once per seed.

    Args:
        recipe, seeds: The recipe, and the seeds that replace its own.
        num_workers: Number of games played at a time, each in a process.
        beginning: Name of another replicated recipe in the same `output_dir`, whose bootstrap and first verifiers are
            taken over where they are the same (see [`~experiments.shared_phases.begin_with`]).
    Raises `JobsFailedError` if games could not be played; the others are finished.
    """
    jobs = [
        Job(f"seed {seed}", partial(_play_replicate, recipe, beginning, seed), partial(_is_finished, recipe, seed))
        for seed in dict.fromkeys(seeds)
    ]
    run_jobs(jobs, num_workers=num_workers)


def _is_finished(recipe: Recipe, seed: int) -> bool:
    return not unfinished(replicate_recipe(recipe, seed))


def _play_replicate(recipe: Recipe, beginning: str | None, seed: int) -> None:
    played = replicate_recipe(recipe, seed)
    if beginning is not None:
        begin_with(played, RunFolder.of(replicate_recipe(replace(recipe, name=beginning), seed)))
    play(played)


def evaluate_replicates(
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    overrides: Sequence[str] = (),
    attacked: AttackedRounds = "ends",
    num_workers: int = 1,
) -> None:
    """
    Evaluate the finished games of [`~experiments.replication.replicate`]. Results that are stored are not computed
    again.

    All evaluations are computed: those that are not costly for every round, `attacks` for the rounds of `attacked`,
    then `regression`, which tests what all attacks have found, and `legibility_tax` for the last round, if its helpful
    role was trained by the verifier's score alone.

    Args:
        recipe, seeds: As in [`~experiments.replication.replicate`]. A game that is not finished is left out.
        overrides: Settings of the evaluations as `NAME.key=value`, the same for all seeds.
        attacked: Whether the first and the last round's verifier are attacked by trained attackers (`ends`), or `all`.
        num_workers: Number of games evaluated at a time, each in a process.
    Raises `ValueError` for a setting of an unknown evaluation.
    Raises `JobsFailedError` if evaluations of some seeds failed; the results of the others are kept.
    """
    _, unknown = split_settings(overrides)
    if unknown:
        raise ValueError(
            f"`{unknown[0]}` is no setting of an evaluation; known are those of {', '.join(EVALUATIONS)}."
        )
    games = [replicate_recipe(recipe, seed) for seed in dict.fromkeys(seeds)]
    finished = [game.seed for game in games if not unfinished(game)]
    for game in games:
        if game.seed not in finished:
            logger.info("%s is not finished, and is not evaluated yet.", game.name)
    jobs = [
        Job(f"seed {seed}", partial(_evaluate_game, recipe, overrides, attacked, seed), _never) for seed in finished
    ]
    run_jobs(jobs, num_workers=num_workers)


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


def _evaluate_game(recipe: Recipe, overrides: Sequence[str], attacked: AttackedRounds, seed: int) -> None:
    register()  # in this process, too
    played = replicate_recipe(recipe, seed)
    for name, rounds in evaluation_stages(played, attacked):
        settings = [override for override in overrides if override.startswith(f"{name}.")]
        for index in rounds:
            root = RunFolder.of(played).root
            evaluate_run(root, round_index=index, only=[name], overrides=settings, num_workers=1)


def _never() -> bool:
    """Stored results are found by the evaluations themselves."""
    return False


if __name__ == "__main__":
    sys.exit(main())
