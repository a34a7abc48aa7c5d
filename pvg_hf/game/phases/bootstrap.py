"""
The bootstrap phase: the base prover's solutions of the verifier's problems, and of test problems in the game's roles.
"""

from collections import Counter
from pathlib import Path

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.imports import imported_rows
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.labels import LabelSource, iterate_labelled
from pvg_hf.game.minting import WriteJob, describe_written, forget_batches, write_and_count, write_solutions
from pvg_hf.run.layout import pool_file, pool_test_file


def run_bootstrap(context: PhaseContext, output: Path) -> str:
    """Write `base.parquet`, and `test-ROLE.parquet` as the baseline of every round's prover."""
    sampler = context.players.base_sampler()
    with LabelSource.for_pool(context, output) as labels:
        if context.recipe.bootstrap.import_from:
            of_base = {"imported solutions": _import(context, output / pool_file(Role.BASE), labels)}
        else:
            per_problem = context.recipe.bootstrap.solutions_per_problem
            jobs = [WriteJob(part, Role.BASE, BASE_ROUND, per_problem) for part in VERIFIER_PARTS]
            counts = write_solutions(context, output / pool_file(Role.BASE), jobs, sampler, labels=labels)
            of_base = {"solutions of the base prover": counts}
    of_roles = {}
    for role in GAME_ROLES:
        job = WriteJob("test", role, BASE_ROUND, context.recipe.mint.test_solutions_per_problem)
        of_roles[f"in the {role} role"] = write_solutions(context, output / pool_test_file(role), [job], sampler)
    forget_batches(output, context.processes)
    return describe_written(of_base | of_roles)


def _import(context: PhaseContext, path: Path, labels: LabelSource) -> Counter[str]:
    """
    Import existing solutions instead of the base prover's. Their labels get the same noise, unless the source has
    labels.
    """
    rows = imported_rows(context.recipe.bootstrap, context.problems.task, context.problems.parts)
    has_labels = "label" in context.recipe.bootstrap.import_columns
    return write_and_count(context, path, iterate_labelled(context.stop, rows, None if has_labels else labels))
