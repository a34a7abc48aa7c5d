"""
The legibility tax (Kirchner et al. 2024): a round's helpful prover beside the same base trained for correctness only
on as many sampled solutions (docs/reference/figures.md).

    python -m experiments.legibility_tax runs/quickstart
    python -m experiments.legibility_tax runs/quickstart --round 0 legibility_tax.num_solutions=6400

The training takes about as long as a round, and resumes. The table is that of the evaluation `legibility_tax`, which
is stored in the run's folder and is part of its metrics, report and app.
"""

import sys
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from experiments.command import run_experiment
from experiments.shared_phases import begin_with
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.fields import Count, section
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.recipe import merge
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.integrity import read_json_lines
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.intervals import rate_by_problem, rate_difference
from pvg_hf.evaluation.role_figures import has_failed
from pvg_hf.experimental.attacks.attack_plan import SIDE_RUN
from pvg_hf.experimental.judging.judged_round import JudgedRound, JudgedRun
from pvg_hf.experimental.judging.judged_texts import LegibilitySettings, add_judge_scores, test_rows
from pvg_hf.experimental.judging.round_evaluations import EVALUATIONS, RoundEvaluation
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.experimental.judging.solution_legibility import legibility_figures
from pvg_hf.game.play import play
from pvg_hf.run.console import ScriptParser
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.layout import JUDGING, RunFolder

SIDES = ("game", "correctness_only", "base")
"""Provers that are compared."""

CONTRASTS = (("game", "correctness_only"), ("correctness_only", "base"), ("game", "base"))
"""Differences of two of `SIDES`, the first less the second."""

MEASURES = {
    "step_validity": "step_validity/helpful_correct",
    "all_valid": "all_valid/helpful_correct",
    "implicit_share": "implicit_share/helpful_correct",
    "judge_auc/own_mistakes": "judge_auc/helpful",
    "judge_auc/sneaky_mistakes": "judge_auc/game",
    "judge_single/own_mistakes": "judge_single/helpful",
    "judge_cut": "judge_cut/helpful_correct",
    "num_tokens": "num_tokens/helpful_correct",
    "num_lines": "num_lines/helpful_correct",
    "readability": "readability/helpful_correct",
}
"""Figures of correct solutions, by the keys of
[`~pvg_hf.experimental.judging.solution_legibility.legibility_figures`]."""

# A training of the helpful role alone, to its last planned step.
_OVERRIDES: dict[str, Any] = {
    **SIDE_RUN,
    "stopping": {"rule": "max_steps", "options": {}},
}


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("overrides", nargs="*", metavar="legibility_tax.key=value", help="settings of the evaluation")
    parser.add_argument(
        "--round", type=int, dest="round_index", metavar="K", help="a round, from 0 (default: the last one)"
    )
    parser.add_argument("--again", action="store_true", help="delete the stored result first; the training is kept")
    arguments = parser.parse_intermixed_args()

    def work() -> str:
        register()
        rounds = RunFolder.find(arguments.run).rounds("pool")
        (result,) = evaluate_run(
            arguments.run,
            round_index=max(rounds, default=0) if arguments.round_index is None else arguments.round_index,
            only=["legibility_tax"],
            overrides=arguments.overrides,
            again=arguments.again,
        )
        return tax_table(result)

    return run_experiment(work)


def register() -> None:
    """Add the evaluation to those of a round, so that it can be named."""
    EVALUATIONS["legibility_tax"] = EVALUATION


@section
class LegibilityTaxSettings(LegibilitySettings):
    """Settings of the evaluation `legibility_tax`: those of `legibility`, and the amount of training."""

    num_solutions: Count | None = Field(
        None,
        description=(
            "Sampled solutions that the prover for correctness only is trained on, rounded up to whole steps; by"
            " default as many helpful ones as the judged prover was trained on."
        ),
    )


def judge_legibility_tax(judged: JudgedRound, settings: LegibilityTaxSettings, output: Path) -> dict[str, Figure]:
    """
    Train the round's base for correctness only, or resume that training, and compare both provers and the base.

    The training is a run of one round in the folder of the evaluation. Rounds with as many solutions share it.

    Returns: `MEASURE/SIDE` and `MEASURE/SIDE_less_SIDE` for `accuracy`, `failed` and the keys of `MEASURES`, and
        `num_solutions/SIDE`. All differences are paired on the problems.
    Raises `ValueError` if the prover of the round evaluates its own proofs, which is another reward than correctness.
    """
    counted = count_helpful_solutions(judged)
    recipe = correctness_only_recipe(judged, settings.num_solutions or counted)
    begin_with(recipe, judged.folder)  # the same base prover and problems, so that its bootstrap need not be repeated
    play(recipe)
    control = JudgedRun.open(Path(recipe.output_dir) / recipe.name).round(0)
    tables = {
        "game": test_rows(judged, judged.round_index),
        "correctness_only": test_rows(control, 0),
        "base": test_rows(judged, BASE_ROUND),
    }
    # One set of mistakes for all sides, so that the judge's figures differ by the helpful solutions alone.
    mistakes = _in_role(tables["game"], Role.SNEAKY)
    sides = {
        name: pd.concat([_in_role(rows, Role.HELPFUL), mistakes], ignore_index=True) for name, rows in tables.items()
    }
    add_judge_scores(judged, settings, list(sides.values()), base_rows=sides["base"])
    figures = tax_figures(
        sides, seed=judged.seed("legibility_tax"), num_resamples=judged.recipe.evaluation.bootstrap_samples
    )
    sizes = {"game": counted, "correctness_only": count_helpful_solutions(control)}
    return figures | {f"num_solutions/{name}": Figure(float(size), None, None, 1) for name, size in sizes.items()}


def count_helpful_solutions(judged: JudgedRound) -> int:
    """
    Count the helpful solutions that a round's prover was trained on, since its weights were the base prover's.

    With `prover.init: base` these are the solutions of this round, and with `previous` those of all rounds up to it. A
    prover with shared roles draws the role of each prompt, and half of its solutions count as helpful.

    Raises `ValueError` if the helpful role was not trained.
    """
    first = judged.round_index if judged.recipe.prover.init == "base" else 0
    lines = [line for line in read_json_lines(judged.folder.metrics) if line.get("phase") == "prover"]
    total = 0
    for round_index in range(first, judged.round_index + 1):
        config = judged.run.recipe.for_round(round_index).prover
        # With separate adapters each role has steps of its own; a step of shared roles may by chance have one role
        # only.
        roles = (Role.HELPFUL,) if config.is_separate else config.trained_roles
        if Role.HELPFUL not in roles:
            continue
        names = {f"prover/accuracy/{role}" for role in roles}
        batches = [line for line in lines if line["round"] == round_index and names & line.keys()]
        total += len(batches) * config.prompts_per_step * config.num_generations // len(roles)
    if not total:
        raise ValueError(
            f"The helpful prover of round {judged.round_index} was not trained (`prover.roles:"
            f" {judged.recipe.prover.roles}`): there is nothing to compare with training for correctness only."
        )
    return total


def correctness_only_recipe(judged: JudgedRound, num_solutions: int) -> Recipe:
    """
    Return the recipe of the prover that is trained for correctness only: one round, the round's settings otherwise.

    Args:
        judged: The round that it is compared with. Seed, base, problems and optimiser are this round's.
        num_solutions: Sampled solutions of the training, rounded up to whole steps.
    Raises `ValueError` if the prover of the round evaluates its own proofs.
    """
    prover = judged.recipe.prover
    if prover.self_evaluation is not None:
        raise ValueError(
            "`prover.self_evaluation` pays for more than correctness; the evaluation `legibility_tax` needs a recipe"
            " without it."
        )
    changes = {
        "name": f"correctness-only-{num_solutions}",
        "output_dir": str(judged.folder.root / JUDGING / "legibility_tax"),
        "prover": {
            "roles": "helpful_only",
            "helpful_max_steps": None,
            "init": "base",
            "reward": "correctness_only",
            "reward_options": {},
            "reward_correction": "none",
            "max_steps": ceil(num_solutions / (prover.prompts_per_step * prover.num_generations))
            * _batch_steps(prover),
        },
    }
    return load_recipe(merge(merge(judged.recipe.to_dict(), _OVERRIDES), changes))


def _batch_steps(prover: ProverConfig) -> int:
    """Optimiser steps on one batch of solutions."""
    return prover.steps_per_batch * prover.trainer.get("num_iterations", 1)


def tax_figures(sides: Mapping[str, pd.DataFrame], *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """
    Compare helpful solutions of provers to the same problems.

    Args:
        sides: Test solutions by the names of `SIDES`, with the columns of
            [`~pvg_hf.experimental.judging.solution_legibility.legibility_figures`]. Sneaky solutions are the same on
            all sides.
        seed, num_resamples: Settings of the bootstraps over problems.
    Returns: `MEASURE/SIDE` and `MEASURE/SIDE_less_SIDE`, measure by measure. Failed solutions count as incorrect in
        the accuracy, as in a round's own evaluation.
    """
    helpful = {name: _in_role(rows, Role.HELPFUL) for name, rows in sides.items()}
    rates = {
        name: {"accuracy": rows["correct"].astype(bool), "failed": has_failed(rows)} for name, rows in helpful.items()
    }
    pairs = {
        (first, second): legibility_figures(sides[first], sides[second], seed=seed, num_resamples=num_resamples)
        for first, second in CONTRASTS
    }
    figures: dict[str, Figure] = {}
    for measure in ("accuracy", "failed"):
        for name, rows in helpful.items():
            figures[f"{measure}/{name}"] = rate_by_problem(rates[name][measure], rows["problem_id"])
        for first, second in CONTRASTS:
            figures[f"{measure}/{first}_less_{second}"] = rate_difference(
                *(part for name in (first, second) for part in (rates[name][measure], helpful[name]["problem_id"]))
            )
    for measure, key in MEASURES.items():
        found = {
            "game": pairs["game", "base"].get(key),
            "correctness_only": pairs["correctness_only", "base"].get(key),
            "base": pairs["game", "base"].get(f"base/{key}"),
            **{f"{first}_less_{second}": pair.get(f"change/{key}") for (first, second), pair in pairs.items()},
        }
        figures |= {f"{measure}/{name}": figure for name, figure in found.items() if figure is not None}
    return figures


def tax_table(result: Judgement) -> str:
    """Return a result of the evaluation as a Markdown table: a row per measure, a column per prover and difference."""
    columns = [*SIDES, *(f"{first}_less_{second}" for first, second in CONTRASTS)]
    rows = [["", *(name.replace("_", " ") for name in columns)]]
    for measure in ("accuracy", "failed", *MEASURES, "num_solutions"):
        keys = [f"{measure}/{name}" for name in columns]
        if any(key in result.figures for key in keys):
            rows.append([measure, *(f"{result.figure(key):.3f}" if key in result.figures else "" for key in keys)])
    return markdown_table(rows)


def _in_role(rows: pd.DataFrame, role: Role) -> pd.DataFrame:
    return rows[rows["role"] == role.value].reset_index(drop=True)


EVALUATION = RoundEvaluation(
    title="Legibility tax: the game against training for correctness only",
    judge=judge_legibility_tax,
    settings=LegibilityTaxSettings,
    phases=("prover", "mint"),
    terms={
        "game, correctness only, base": (
            "the round's helpful prover, the same base trained for correctness only on as many "
            "solutions, and the base prover, on the same test problems."
        ),
        "game less correctness only, ...": (
            "paired differences of two of them on the same problems. The tax is a negative one of the accuracy."
        ),
        "judge auc": (
            "area under the ROC curve of the weaker judge, of the prover's correct solutions against its own incorrect"
            " ones (`own mistakes`) and against the game's sneaky ones, the same for all three (`sneaky mistakes`)."
        ),
    },
    is_costly=True,
)


if __name__ == "__main__":
    sys.exit(main())
