"""Whether the noise of a recipe is what it says, and its checker works."""

from collections.abc import Iterator
from functools import partial

from pvg_hf.config.checker import CheckerConfig
from pvg_hf.game.checking import make_base, make_routes
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.label_rates import label_rates
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.noise.routes import Routes
from pvg_hf.suggestions import suggest


def check_noise(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `noise`, among them what a checker of the user's says of a reference solution."""
    noise = context.recipe.noise
    if noise.soft_labels and context.recipe.verifier.correction != "none":
        yield (
            f"`verifier.correction` is `{context.recipe.verifier.correction}` beside `noise.soft_labels`, which tell the mean of "
            "the noise and leave nothing to correct: set one of the two."
        )
    if noise.checker is None:
        yield from refusals("`noise`", partial(_label_rates, context))
        return
    mistakes = refusals("`noise.checker`", partial(make_routes, noise.checker))
    if not mistakes:
        mistakes = [*_check_columns(context, make_routes(noise.checker))]
    yield from mistakes or refusals("`noise.checker`", partial(_label_rates, context))
    yield from [] if mistakes else _check_base(context, noise.checker)


def _label_rates(context: PhaseContext) -> None:
    for player in ("verifier", "prover"):
        label_rates(context, player)


def _check_columns(context: PhaseContext, routes: Routes) -> Iterator[str]:
    """Whether the problems have the columns that are named, and the slices their values."""
    if context.world is None:
        return
    parts = context.world.parts
    columns = parts["verifier"].column_names
    named = {"slice_by": routes.slice_by, "critical": routes.critical and routes.critical.column}
    unknown = {key: column for key, column in named.items() if column is not None and column not in columns}
    for key, column in unknown.items():
        yield f"`noise.checker.{key}` names the column `{column}`, which the task's problems lack. {suggest(column, columns)}"
    if unknown or routes.slice_by is None:
        return
    values = sorted({str(value) for part in parts.values() for value in part.unique(routes.slice_by)})
    for name in routes.slices:
        if name not in values:
            yield (
                f"`noise.checker.slices` has `{name}`, but no problem has that `{routes.slice_by}`. "
                f"{suggest(name, values)}"
            )


def _check_base(context: PhaseContext, config: CheckerConfig) -> Iterator[str]:
    """Ask a checker of the user's about a reference solution, as the game would."""
    base = make_base(config) if not refusals("", partial(make_base, config)) else None
    yield from refusals("`noise.checker.command`", partial(make_base, config))
    if base is None or context.world is None:
        return
    problem = context.world.parts["verifier"][0]
    budget = make_routes(config).routing.longest_seconds
    try:
        verdict = base.ask(problem, problem["reference"], budget)
    except TypeError as err:
        yield f"`noise.checker.base`: {err}"
        return
    finally:
        base.close()
    asked = f"about the reference solution of the problem `{problem['problem_id']}`"
    if verdict.error is not None:
        yield f"`noise.checker.base`, asked {asked}, ends with an error: {verdict.error}"
    elif verdict.passed is None:
        yield f"`noise.checker.base`, asked {asked}, does not come to an end within {budget:g} s."
