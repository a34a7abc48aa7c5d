"""The base prover's solutions on D_V, and its solutions in the game's roles on the test problems."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pvg_hf.config.sections import BootstrapConfig
from pvg_hf.data.imports import import_solutions
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import BASE_ROUND, solution_features
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.minting import Batch, told_label, write_solutions
from pvg_hf.game.players import open_base_sampler
from pvg_hf.game.world import World
from pvg_hf.roles import GAME_ROLES, Role


def run_bootstrap(context: PhaseContext, output: Path) -> str:
    """Write `base.parquet`, and `test-ROLE.parquet` to compare every round's prover with."""
    sampler = open_base_sampler(context)
    if context.recipe.bootstrap.import_from:
        num_rows = _import(context, output / f"{Role.BASE}.parquet")
    else:
        per_problem = context.recipe.bootstrap.solutions_per_problem
        batches = [Batch(part, Role.BASE, BASE_ROUND, per_problem) for part in VERIFIER_PARTS]
        num_rows = write_solutions(context, output / f"{Role.BASE}.parquet", batches, sampler)
    for role in GAME_ROLES:
        batch = Batch("test", role, BASE_ROUND, context.recipe.mint.test_solutions_per_problem)
        num_rows += write_solutions(context, output / f"test-{role}.parquet", [batch], sampler)
    return f"{num_rows} solutions of the base prover"


def _import(context: PhaseContext, path: Path) -> int:
    """Existing solutions in place of the base prover's; their labels get the same noise, unless the source has them."""
    rows = imported_rows(context.recipe.bootstrap, context.world, tell=partial(told_label, context))
    if not context.processes.is_main_process:
        return 0
    return write_pool(path, ([row] for row in rows), solution_features(context.world.task))


def imported_rows(bootstrap: BootstrapConfig, world: World, **options: Any) -> Iterator[dict[str, Any]]:
    """The solutions that a recipe imports; `options` are further ones of [`~pvg_hf.data.imports.import_solutions`]."""
    return import_solutions(
        bootstrap.import_from,
        world.task,
        {part: world.parts[part] for part in VERIFIER_PARTS},
        columns=bootstrap.import_columns,
        config=bootstrap.import_config,
        split=bootstrap.import_split,
        revision=bootstrap.import_revision,
        **options,
    )
