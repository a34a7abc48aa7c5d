"""Checks that the noise of a recipe is consistent, and that its checker works."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import partial

from datasets import Dataset

from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.conditions import Condition
from pvg_hf.config.noise_section import BudgetConfig, CheckerConfig, NoiseConfig
from pvg_hf.core.extensions import ExtensionError, suggest
from pvg_hf.data.label_rates import label_rates
from pvg_hf.noise.error_buckets import FEATURES, SolutionValues
from pvg_hf.noise.imperfect_checker import make_base
from pvg_hf.noise.routing import Routes, make_routes
from pvg_hf.tasks.base import Problem


def check_checker(checker: CheckerConfig | None) -> list[str]:
    """List mistakes in `noise.checker` that can be found without the task's problems."""
    if checker is None:
        return []
    tries = {"`noise.checker`": make_routes, "`noise.checker.command`": make_base}
    return [mistake for where, make in tries.items() for mistake in refusals(where, partial(make, checker))]


def check_label_rates(recipe: Recipe, round_index: int, problems: Mapping[str, Iterable[Problem]]) -> list[str]:
    """
    List a mistake if the labels that the `verifier` or `prover` sees are wrong so often that they mislead on its
    `problems`.
    """
    where = "`noise`" if recipe.noise.checker is None else "`noise.checker`"
    return refusals(
        where, lambda: [label_rates(recipe, round_index, player, problems[player]) for player in recipe.players]
    )


def check_checker_settings(recipe: Recipe, round_index: int, parts: Mapping[str, Dataset]) -> Iterator[str]:
    """
    List mistakes in `noise.checker` on the task's problems by part, with verdicts of a custom checker on a few
    solutions.

    [`check_checker`] must have found no mistake.
    """
    noise, checker = recipe.noise, recipe.noise.checker
    assert checker is not None
    routes = make_routes(checker)
    mistakes = [*_check_columns(routes, parts), *_check_selectors(checker, parts)]
    mistakes = mistakes or refusals("`noise.checker`", partial(_check_budgets, checker.budget, noise, routes, parts))
    yield from mistakes or check_label_rates(recipe, round_index, parts)
    yield from [] if mistakes else _check_base(checker, parts["verifier"], routes.routing.longest_seconds)


def _check_budgets(budget: BudgetConfig, noise: NoiseConfig, routes: Routes, parts: Mapping[str, Dataset]) -> None:
    """Raise a `ValueError` if a budget of the checker does not cover the cheapest first call."""
    budgets = {name: amount for name, amount in asdict(budget).items() if amount is not None}
    if not budgets:
        return
    players = [*["verifier"] * noise.is_for_verifier, *["prover"] * noise.is_for_prover]
    problems = (problem for player in players for problem in parts[player])
    least = min(routes.of(problem)[0].path[0].cost for problem in problems)
    small = [f"`budget.{name}` ({amount:g})" for name, amount in budgets.items() if amount < least]
    if small:
        raise ValueError(
            f"{' and '.join(small)} cannot pay for a single call: the cheapest first call costs {least:g}, so that"
            " every solution would be BUDGET_EXHAUSTED and have no label. Raise it, or start with a cheaper `tier`."
        )


def _check_columns(routes: Routes, parts: Mapping[str, Dataset]) -> Iterator[str]:
    """List named columns that the problems lack, and slices without a problem."""
    columns = parts["verifier"].column_names
    critical = routes.critical if isinstance(routes.critical, Condition) else None
    named = [("slice_by", routes.slice_by)] if routes.slice_by is not None else []
    named += [("critical", name) for name in (critical.names if critical is not None else ())]
    unknown = [(key, column) for key, column in named if column not in columns]
    for key, column in unknown:
        yield (
            f"`noise.checker.{key}` names the column `{column}`, which the task's problems lack."
            f" {suggest(column, columns)}"
        )
    if unknown:
        return
    if critical is not None and critical.is_name:
        column = critical.text
        kind = str(parts["verifier"].features.arrow_schema.field(column).type)
        if kind != "bool":
            yield (
                f"`noise.checker.critical` is the column `{column}`, whose values are not true or false but `{kind}`:"
                " compare it with a value, as in `difficulty >= 5`."
            )
    if routes.slice_by is None:
        return
    values = sorted({str(value) for part in parts.values() for value in part.unique(routes.slice_by)})
    for name in routes.slices:
        if name not in values:
            yield (
                f"`noise.checker.slices` has `{name}`, but no problem has that `{routes.slice_by}`."
                f" {suggest(name, values)}"
            )


def _check_selectors(checker: CheckerConfig, parts: Mapping[str, Dataset]) -> Iterator[str]:
    """
    List conditions of the checker's systematic errors that read something unknown, or fail on a reference solution.
    """
    where, problems = "`noise.checker.errors`", parts["verifier"]
    known = [*FEATURES, *problems.column_names]
    buckets = [] if checker.errors is None else checker.errors.targeted_buckets
    conditions = [part for bucket in buckets for part in Condition(bucket.selector).parts]
    for name in sorted({name for condition in conditions for name in condition.names} - set(known)):
        yield f"{where} has a selector with `{name}`, which no solution has. {suggest(name, known)}"
    values = SolutionValues(problems[0], problems[0]["reference"], seed=0)
    tries = [partial(condition, values) for condition in conditions if set(condition.names) <= set(known)]
    yield from dict.fromkeys(mistake for attempt in tries for mistake in refusals(where, attempt))


def _check_base(config: CheckerConfig, problems: Dataset, budget_seconds: float) -> Iterator[str]:
    """
    Ask a custom checker about a few solutions, as the game would, and list the first mistake, if any.

    It must decide on a reference, and verdicts must be booleans.
    """
    base, problem = make_base(config), problems[0]
    if base is None:
        return
    with closing(base):
        for asked, solution in _solutions_to_ask(problems):
            where = f"`noise.checker.base`, asked whether {asked} solves the problem `{problem['problem_id']}`,"
            try:
                verdict = base.ask(problem, solution, budget_seconds)
            except ExtensionError as err:
                yield f"{where} gives no verdict: {err}"
                return
            if solution == problem["reference"] and verdict.passed is None:
                reason = f"does not finish within {budget_seconds:g} s."
                yield f"{where} {reason if verdict.error is None else f'ends with an error: {verdict.error}'}"
                return


def _solutions_to_ask(problems: Dataset) -> Iterator[tuple[str, str]]:
    """Descriptions and texts of a few solutions to the first problem."""
    reference, *others = problems["reference"]
    yield "the reference solution", reference
    yield "an empty solution", ""
    wrong = next((other for other in others if other != reference), None)
    if wrong is not None:
        yield "another problem's reference solution", wrong
