"""The mint phase: the round's prover writes solutions, and the round's verifier scores them."""

from collections import Counter, defaultdict
from pathlib import Path

from accelerate.utils import broadcast_object_list

from pvg_hf.config import Recipe
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.honest_solutions import read_honest_solutions
from pvg_hf.game.labels import LabelSource
from pvg_hf.game.minting import WriteJob, count_scored, describe_written, forget_batches, write_solutions
from pvg_hf.run.layout import BEST_HELPFUL, HELDOUT_HELPFUL, pool_file, pool_test_file


def run_mint(context: PhaseContext, output: Path) -> str:
    """
    Write the round's solutions.

    The last checkpoint writes `ROLE.parquet` (the verifier's problems, D_V) and `test-ROLE.parquet` for both roles.
    The best helpful checkpoint, if any, writes `test-best-helpful.parquet`. The prover that answers problems (the best
    helpful checkpoint, or else the last one) writes `heldout-helpful.parquet` (held-out problems), on which the choice
    of answers is calibrated.
    """
    mint, round_index = context.recipe.mint, context.round_index
    players = context.players
    scorer = players.scorer(round_index)
    written: dict[str, Counter[str]] = defaultdict(Counter)
    with LabelSource.for_pool(context, output) as labels:
        for role in GAME_ROLES:
            if role is Role.SNEAKY and context.recipe.task.shows_own_solutions:
                files = [output / pool_file(Role.HELPFUL), output / pool_test_file(Role.HELPFUL)]
                # Only the main process, which has written the files, reads them.
                is_main, task = context.processes.is_main_process, context.problems.task
                shown = broadcast_object_list([read_honest_solutions(task, files) if is_main else {}])[0]
                context.problems = context.problems.showing(shown)
            sampler = players.role_sampler(role, round_index, base_owner=scorer)
            parts = VERIFIER_PARTS if _is_learned_from(context.recipe, role) else ()
            jobs = [WriteJob(part, role, round_index, mint.solutions_per_problem) for part in parts]
            writer = written[f"{role} solutions"]
            writer += write_solutions(context, output / pool_file(role), jobs, sampler, scorer, labels)
            test = WriteJob("test", role, round_index, mint.test_solutions_per_problem)
            writer += write_solutions(context, output / pool_test_file(role), [test], sampler, scorer)
            del sampler  # before the next prover is loaded, since its cache takes most of a GPU
    best = context.folder.best_helpful(round_index)
    checkpoint = "" if best is None else BEST_HELPFUL
    if best is None:
        sampler = players.role_sampler(Role.HELPFUL, round_index, base_owner=scorer)
        writer = written["helpful solutions"]
    else:
        sampler = players.sampler(best, base_owner=scorer)
        writer = written["of the best helpful checkpoint"]
        test = WriteJob("test", Role.HELPFUL, round_index, mint.test_solutions_per_problem, checkpoint=checkpoint)
        writer += write_solutions(context, output / pool_test_file(BEST_HELPFUL), [test], sampler, scorer)
    heldout = WriteJob(
        "verifier_heldout", Role.HELPFUL, round_index, mint.test_solutions_per_problem, checkpoint=checkpoint
    )
    writer += write_solutions(context, output / HELDOUT_HELPFUL, [heldout], sampler, scorer)
    context.record({f"mint/{name}": number for name, number in sorted(count_scored(output).items())})
    if figures := context.recipe.verifier.implementation().label_solutions(players, context.stop, scorer, output):
        context.record(figures)
    forget_batches(output, context.processes)
    return describe_written(written)


def _is_learned_from(recipe: Recipe, role: Role) -> bool:
    """Whether later verifiers learn from the round's solutions in `role`."""
    # With `correct_source: dataset`, references replace the helpful solutions of a prover that is not trained in this
    # role.
    fixed = role == Role.HELPFUL and recipe.prover.roles == "sneaky_only"
    return not (fixed and recipe.data.correct_source == "dataset")
