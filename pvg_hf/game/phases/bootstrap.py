"""
The bootstrap phase: the base prover's solutions of the verifier's problems, and of test problems in the game's roles.
"""

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
    sampler, config = context.players.base_sampler(), context.recipe.bootstrap
    with LabelSource.for_pool(context, output) as labels:
        if config.import_from:
            task, is_main = context.problems.task, context.processes.is_main_process
            rows = imported_rows(config, task, context.problems.parts)
            # Labels of the source get no noise.
            batches = iterate_labelled(context.stop, rows, None if "label" in config.import_columns else labels)
            counts = write_and_count(output / pool_file(Role.BASE), batches, task, is_main=is_main)
            of_base = {"imported solutions": counts}
        else:
            jobs = [WriteJob(part, Role.BASE, BASE_ROUND, config.solutions_per_problem) for part in VERIFIER_PARTS]
            counts = write_solutions(context, output / pool_file(Role.BASE), jobs, sampler, labels=labels)
            of_base = {"solutions of the base prover": counts}
    of_roles = {}
    for role in GAME_ROLES:
        job = WriteJob("test", role, BASE_ROUND, context.recipe.mint.test_solutions_per_problem)
        of_roles[f"in the {role} role"] = write_solutions(context, output / pool_test_file(role), [job], sampler)
    forget_batches(output, context.processes)
    return describe_written(of_base | of_roles)
