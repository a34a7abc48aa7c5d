"""
Compares checkers that err at one rate in different ways.

Every arm accepts the same share of the base prover's wrong solutions; what differs is which ones. Each is compared with
a game of the same seed whose checker does not err.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pvg_hf.config import Recipe, RecipeError, load_recipe
from pvg_hf.config.noise_section import ErrorsConfig
from pvg_hf.config.recipe import merge
from pvg_hf.core.files import write_text
from pvg_hf.core.roles import Role
from pvg_hf.data.pool import load_pool
from pvg_hf.data.schema import BASE_ROUND
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.role_figures import is_valid_mistake
from pvg_hf.evaluation.seeds import mean_over_seeds, show_figure
from pvg_hf.game.play import play
from pvg_hf.noise.error_buckets import ErrorBuckets
from pvg_hf.run.folder import RunFolder
from pvg_hf.run.read import load_run

CLEAN = "clean"

_COLUMNS = ("problem_id", "part", "solution", "reference", "correct", "outcome")


@dataclass(frozen=True)
class ArmResult:
    """
    A finished game of one arm.

    Args:
        arm (`str`):
            A key of `arms.checkers`, or `clean`.
        seed (`int`):
            Seed of the game.
        folder ([`~pvg_hf.run.folder.RunFolder`]):
            Its run.
        errors ([`~pvg_hf.config.noise_section.ErrorsConfig`], *optional*):
            Errors of its checker; `None` for the clean arm.
    """

    arm: str
    seed: int
    folder: RunFolder
    errors: ErrorsConfig | None


def play_arms(recipe: Recipe, seeds: Sequence[int] | None = None) -> list[ArmResult]:
    """
    Play or resume every arm of a recipe for every seed.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            A recipe with a section `arms`.
        seeds (`Sequence[int]`, *optional*):
            Replace those of the section.

    Raises:
        ValueError: if the recipe has no such section, or an arm's buckets alone accept more than the common rate.
    """
    results = []
    for seed in _seeds(recipe, seeds):
        clean = play(arm_recipe(recipe, CLEAN, seed, None))
        results.append(ArmResult(CLEAN, seed, clean, None))
        wrong = base_mistakes(clean)
        for arm in recipe.arms.checkers:
            errors = fill_up(recipe, arm, wrong, seed)
            results.append(ArmResult(arm, seed, play(arm_recipe(recipe, arm, seed, errors)), errors))
    return results


def arm_recipe(recipe: Recipe, arm: str, seed: int, errors: ErrorsConfig | None) -> Recipe:
    """Recipe of one game; `errors` are those of its checker, or `None` for clean labels."""
    changes: dict[str, Any] = {"name": f"{recipe.name}-{arm}-seed-{seed}", "seed": seed, "arms": None}
    values = merge({**recipe.to_dict(), "noise": {}}, changes)
    if errors is not None:
        made = load_recipe({"noise": {"checker": {"errors": _as_mapping(errors)}}}).to_dict()["noise"]["checker"][
            "errors"
        ]
        values["noise"] = {"applies_to": "prover", "checker": {"noise_enabled": False, "errors": made}}
    return load_recipe(values)


def _as_mapping(errors: ErrorsConfig) -> dict[str, Any]:
    buckets = [
        {"selector": one.selector, **{name: rate for name in ("TPR", "FPR") if (rate := vars(one)[name]) is not None}}
        for one in errors.targeted_buckets
    ]
    return {"TPR": errors.TPR, "FPR": errors.FPR, "strategy": errors.strategy, "targeted_buckets": buckets}


def base_mistakes(folder: RunFolder) -> pd.DataFrame:
    """The base prover's wrong solutions of a run, which every arm of the seed shares."""
    rows = load_pool([folder.pool(BASE_ROUND) / f"{Role.BASE}.parquet"], _COLUMNS, parts=("verifier",)).to_pandas()
    return rows[is_valid_mistake(rows)]


def fill_up(recipe: Recipe, arm: str, wrong: pd.DataFrame, seed: int) -> ErrorsConfig:
    """
    Add random errors outside an arm's buckets, so that it accepts the common share of wrong solutions.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            A recipe with a section `arms`.
        arm (`str`):
            The arm.
        wrong (`pd.DataFrame`):
            Wrong solutions: `problem_id`, `solution`, `reference`.
        seed (`int`):
            Seed of the game.

    Raises:
        ValueError: if the buckets alone accept more than the common rate.
    """
    buckets = [{"selector": one.selector, "FPR": one.FPR} for one in recipe.arms.checkers[arm]]
    if not buckets:
        return ErrorsConfig(FPR=recipe.arms.rate, strategy="uniform")
    # A rate of 0 outside the buckets, then of 1: the difference is the share of solutions outside.
    inside, both = (
        _expected_rate(ErrorsConfig(FPR=fill, targeted_buckets=buckets), wrong, seed) for fill in (0.0, 1.0)
    )
    if inside > recipe.arms.rate or both == inside:
        raise ValueError(
            f"The buckets of `arms.checkers.{arm}` alone accept {inside:.3f} of the base prover's wrong solutions, more than "
            f"`arms.rate` ({recipe.arms.rate}): use a rarer selector or a lower FPR."
        )
    return ErrorsConfig(FPR=(recipe.arms.rate - inside) / (both - inside), targeted_buckets=buckets)


def _expected_rate(errors: ErrorsConfig, wrong: pd.DataFrame, seed: int) -> float:
    checker = ErrorBuckets(errors, seed)
    return sum(checker.rates(row, row["solution"])[1] for row in wrong.to_dict("records")) / len(wrong)


def arms_table(recipe: Recipe, results: Sequence[ArmResult]) -> str:
    """
    Format a Markdown table with a row per arm; changes and rises are means over seeds with Student's interval.
    """
    rows = [["checker", "seeds", "static rate", "accuracy", "change to clean", "rise of false positives", "alerts"]]
    clean = {one.seed: _accuracy(one) for one in results if one.arm == CLEAN}
    for arm in (CLEAN, *recipe.arms.checkers):
        of_arm = [one for one in results if one.arm == arm]
        changes = [_accuracy(one) - clean[one.seed] for one in of_arm]
        means = [mean_over_seeds([_accuracy(one) for one in of_arm]), mean_over_seeds(changes)]
        static = [] if arm == CLEAN else [_static_rate(one) for one in of_arm]
        rises = [rise for one in of_arm for rise in _rises(one)]
        alerts = sum(bool(_alerts(one)) for one in of_arm)
        shown = [
            show_figure(figure, with_n=False) for figure in (mean_over_seeds(static), *means, mean_over_seeds(rises))
        ]
        rows.append([arm, str(len(of_arm)), *shown, f"{alerts} of {len(of_arm)}"])
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def write_arms(recipe: Recipe, results: Sequence[ArmResult]) -> Path:
    """Write `summary.md` into `OUTPUT_DIR/NAME`, and return this folder."""
    folder = Path(recipe.output_dir) / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "summary.md", f"# {recipe.name}\n\n{arms_table(recipe, results)}\n")
    return folder


def describe_arms(recipe: Recipe, seeds: Sequence[int] | None = None) -> Iterator[tuple[str, Recipe]]:
    """Yield the title and the recipe of a game of each arm, with the common rate in place of the filled-up one."""
    seeds = _seeds(recipe, seeds)
    for arm in (CLEAN, *recipe.arms.checkers):
        errors = None if arm == CLEAN else ErrorsConfig(FPR=recipe.arms.rate, strategy="uniform")
        yield f"{arm}, {len(seeds)} game(s)", arm_recipe(recipe, arm, seeds[0], errors)


def _seeds(recipe: Recipe, seeds: Sequence[int] | None) -> Sequence[int]:
    if recipe.arms is None:
        raise RecipeError("The recipe has no section `arms`, which says what is compared.")
    return seeds or recipe.arms.seeds


def _accuracy(result: ArmResult) -> float:
    value = _load(result).evaluated[-1].figure("accuracy/helpful").value
    return float("nan") if value is None else value


def _rises(result: ArmResult) -> list[float]:
    """The rise of false positives of the labels in each prover phase; none for clean labels."""
    rises = [one for phase in _load(result).false_positives for one in phase["rises"]]
    return [
        one["rise"]["value"]
        for one in rises
        if (one["checker"], one["role"]) == ("labels", Role.HELPFUL) and one["rise"]["value"] is not None
    ]


def _alerts(result: ArmResult) -> list[Any]:
    return [alert for alert in _load(result).alerts if alert["kind"] == "rise_of_false_positives"]


def _static_rate(result: ArmResult) -> float:
    """Share of the base prover's wrong solutions that the arm's checker accepts."""
    checker, wrong = ErrorBuckets(result.errors, result.seed), base_mistakes(result.folder)
    verdicts = [checker.judge(row, row["solution"], False, round_index=BASE_ROUND) for row in wrong.to_dict("records")]
    return rate_by_problem(verdicts, wrong["problem_id"]).value


def _load(result: ArmResult):
    return load_run(result.folder.root, solution_columns=["problem_id"])
