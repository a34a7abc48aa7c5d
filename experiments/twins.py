"""
Play a recipe with a checker that errs systematically, and a twin with equally many random errors, and compare them.

    python -m experiments.twins recipes/noise/structured.yaml
    python -m experiments.twins recipes/noise/structured.yaml num_rounds=3 --seeds 0 1 2

Runs are kept in OUTPUT_DIR/NAME-structured-seed-K and OUTPUT_DIR/NAME-random-seed-K; finished runs are not played
again. The table, the steps and the plot are in OUTPUT_DIR/NAME.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.command import recipe_parser, run_experiment
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_text
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.spreadsheets import to_csv
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.role_figures import is_valid_mistake
from pvg_hf.experimental.sweep.level_plots import save_plot
from pvg_hf.experimental.sweep.seeds import show_figure
from pvg_hf.game.play import play
from pvg_hf.report.plots.style import BLUE, GREY, VERMILLION, Plot, legend_beside, new_canvas, tidy
from pvg_hf.run.layout import RunFolder, pool_file
from pvg_hf.run.read import RunData, load_run

STRUCTURED, RANDOM = "structured", "random"

_COLUMNS = ("problem_id", "part", "correct", "outcome", "label")


def main() -> int:
    parser = recipe_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds; two games each (default: 0)")
    arguments = parser.parse_intermixed_args()

    def work() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        admit_recipe(recipe)
        folder = write_twins(recipe, [play_twins(recipe, seed) for seed in arguments.seeds])
        return f"{(folder / 'summary.md').read_text(encoding='utf-8')}\nEverything is in {folder}"

    return run_experiment(work)


@dataclass(frozen=True)
class Twins:
    """
    Two finished games of one seed.

    Args:
        seed: Seed of both games.
        folders: Their runs, by `structured` and `random`.
        rate: False positive rate P(accepted | incorrect) of the random checker. It equals that of the structured
            checker on the base prover's solutions.
    """

    seed: int
    folders: dict[str, RunFolder]
    rate: float


def play_twins(recipe: Recipe, seed: int) -> Twins:
    """
    Play or resume a recipe and its random twin.

    Args:
        recipe: A recipe with a `noise.checker` whose base errs by itself.
        seed: Seed, which replaces the recipe's.
    Raises `ValueError` if the recipe has no such checker, or the checker accepts none or all of the base prover's
        incorrect solutions.
    """
    checker = recipe.noise.checker
    if checker is None or checker.base == "grade":
        raise ValueError(
            "The recipe's `noise.checker.base` must be a checker that errs by itself, a command or"
            f" `package.module:Name`; got {'no checker' if checker is None else checker.base!r}."
        )
    structured = play(_twin_recipe(recipe, STRUCTURED, seed, recipe.to_dict()["noise"]))
    rate = false_positives(structured, BASE_ROUND).value
    if rate is None or not 0 < rate < 1:
        raise ValueError(
            f"The checker `{checker.base}` accepts a share of {rate} of the base prover's incorrect solutions. A"
            " random checker needs a rate strictly between 0 and 1."
        )
    random = play(_twin_recipe(recipe, RANDOM, seed, _random_noise(recipe, rate)))
    return Twins(seed, {STRUCTURED: structured, RANDOM: random}, rate)


def _twin_recipe(recipe: Recipe, kind: str, seed: int, noise: dict) -> Recipe:
    name = f"{recipe.name}-{kind}-seed-{seed}"
    return load_recipe({**recipe.to_dict(), "name": name, "seed": seed, "noise": noise})


def _random_noise(recipe: Recipe, rate: float) -> dict:
    """Noise section of the twin: the task's own grade, with random spurious passes at `rate` and no other errors."""
    tier = {"timeout": 0.0, "spurious_fail": 0.0, "spurious_pass": rate}
    return {**recipe.to_dict()["noise"], "checker": {"tier": "balanced", "tiers": {"balanced": tier}}}


def false_positives(folder: RunFolder, round_index: int) -> Figure:
    """Share of a round's incorrect solutions with the label correct; failed and unlabelled solutions are left out."""
    roles = [Role.BASE] if round_index == BASE_ROUND else GAME_ROLES
    files = [file for role in roles if (file := folder.pool(round_index) / pool_file(role)).exists()]
    rows = load_pool(files, _COLUMNS, parts=("verifier",)).to_pandas()
    wrong = rows[is_valid_mistake(rows) & rows["label"].notna()]
    return rate_by_problem(wrong["label"].astype(float), wrong["problem_id"])


def twins_table(twins: Sequence[Twins]) -> str:
    """Format the results as a Markdown table with a row per seed, checker and round."""
    keys = ("accuracy/helpful", "accuracy_change/helpful", "accuracy/sneaky")
    rows = [["seed", "checker", "round", "false positives", *map(heading_of, keys)]]
    for pair in twins:
        for kind, folder in pair.folders.items():
            for data in _load(folder.root).evaluated:
                figures = [false_positives(folder, data.round_index), *map(data.figure, keys)]
                rows.append([str(pair.seed), kind, str(data.round_index), *map(show_figure, figures)])
    return markdown_table(rows)


def helpful_accuracy(twins: Sequence[Twins]) -> pd.DataFrame:
    """
    Accuracy of the helpful role in training, by step.

    Returns: `seed`, `checker`, `round`, `step` (of this role's training, counted over all rounds), `accuracy` of the
        step's solutions, and `smoothed`, the moving average that the stop rules use.
    """
    tables = [
        _steps(_load(folder.root)).assign(seed=pair.seed, checker=kind)
        for pair in twins
        for kind, folder in pair.folders.items()
    ]
    return pd.concat(tables, ignore_index=True)


def _steps(run: RunData) -> pd.DataFrame:
    parts, before = [], 0
    for data in run.rounds:
        config = run.recipe.for_round(data.round_index)
        training = config.prover.training_of(Role.HELPFUL)
        if "accuracy/helpful" in data.steps:
            known = data.steps[data.steps["accuracy/helpful"].notna()]
            weight = config.stopping.newest_weight(training.num_batches)
            smoothed = known["accuracy/helpful"].ewm(alpha=weight, adjust=False).mean()
            columns = {"step": before + known["step"], "accuracy": known["accuracy/helpful"], "smoothed": smoothed}
            parts.append(pd.DataFrame(columns).assign(round=data.round_index))
        before += training.max_steps
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _load(root: Path) -> RunData:
    return load_run(root, solution_columns=["problem_id"])


STYLES = {
    STRUCTURED: {"color": VERMILLION, "linestyle": "--"},
    RANDOM: {"color": BLUE, "linestyle": "-"},
}


def write_twins(recipe: Recipe, twins: Sequence[Twins]) -> Path:
    """
    Write `summary.md`, `steps.csv` and the plot `helpful-accuracy` into `OUTPUT_DIR/NAME`, and return this folder.
    """
    folder = Path(recipe.output_dir) / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    steps = helpful_accuracy(twins)
    rates = ", ".join(f"{pair.rate:.3f} (seed {pair.seed})" for pair in twins)
    text = f"# {recipe.name}\n\nFalse positives on the base prover's solutions, of both checkers: {rates}.\n\n"
    write_text(folder / "summary.md", f"{text}{twins_table(twins)}\n")
    write_text(folder / "steps.csv", to_csv(steps))
    if len(steps):
        save_plot(plot_twins(steps), folder)
    return folder


def plot_twins(steps: pd.DataFrame) -> Plot:
    """
    Plot helpful accuracy by step, a table of [`helpful_accuracy`]. Thin lines are single seeds, thick lines their
    mean.
    """
    canvas = new_canvas(7.2, 3.6)
    axes = canvas.subplots()
    for checker, rows in steps.groupby("checker", sort=False):
        of_seeds = rows.pivot(index=["round", "step"], columns="seed", values="smoothed")
        # One line per round: training starts again in each.
        for number, (_, part) in enumerate(of_seeds.groupby("round")):
            x = part.index.get_level_values("step")
            axes.plot(x, part, linewidth=0.8, alpha=0.45, **STYLES[checker])
            label = None if number else f"{checker} false positives"
            axes.plot(x, part.mean(axis=1), linewidth=2.2, label=label, **STYLES[checker])
    for start in steps.groupby("round")["step"].min().iloc[1:]:
        axes.axvline(start, color=GREY, linewidth=1, linestyle=":")
    axes.set_xlabel("RL step of the helpful role, through the rounds")
    axes.set_ylabel("helpful accuracy (share)")
    axes.set_ylim(0, 1)
    tidy(axes)
    legend_beside(axes)
    caption = (
        f"{steps['seed'].nunique()} seed(s): thin lines; the thick one is their mean. Moving averages of the steps."
    )
    return Plot("helpful-accuracy", "Structured and random false positives", caption, canvas)


if __name__ == "__main__":
    sys.exit(main())
