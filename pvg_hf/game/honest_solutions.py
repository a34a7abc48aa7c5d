"""
Helpful solutions for the training of the sneaky role: those that it is compared with, and those that its prompts show.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from pvg_hf.core.roles import Outcome, Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.core.stopwatch import EVALUATING, spending
from pvg_hf.data.pool import load_pool
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.labels import LabelSource
from pvg_hf.game.minting import sample_everywhere
from pvg_hf.sampling import Sample, Sampler
from pvg_hf.sampling.sampler import grade_samples
from pvg_hf.tasks.base import Grade, Task, grade_solutions, outcome_of


@dataclass(frozen=True)
class HonestSide:
    """
    A helpful side that a training of the sneaky role leaves as it is: `score/helpful_correct`, its standard error
    `error/helpful_correct`, and `num_scored/helpful_correct`.

    `deciding` is by the labels that `stopping.labels` names, for the stop rule and the watchdogs; it is empty if there
    was no such solution. `clean` is by the truth, for what is reported.
    """

    deciding: Mapping[str, float] = field(default_factory=dict)
    clean: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_metrics(cls, metrics: Sequence[Mapping[str, Any]], labels: str) -> "HonestSide":
        """
        Last held-out figures of a trained helpful role, from the lines of its metrics; `labels` as in
        `stopping.labels`.
        """
        clean, observed = "prover/heldout/score_correct", "prover/heldout/score_observed_correct"
        return cls(*(_last_scores(metrics, key) for key in (clean if labels == "clean" else observed, clean)))

    @classmethod
    @spending(EVALUATING)
    def measure(cls, context: PhaseContext) -> "HonestSide":
        """
        Mean score of correct helpful solutions to the prover's held-out problems, if the helpful role is not trained.

        The solutions are references if `data.correct_source` is `dataset`, and else by the base prover in the helpful
        role.
        """
        number, task = context.recipe.prover.eval_problems, context.problems.task
        problems = context.problems.parts["prover_heldout"].to_list()[:number]
        if context.recipe.data.correct_source == "dataset":
            written, labels = [(problem["reference"], False) for problem in problems], None
        else:
            seed = context.seed("honest")
            drawn = sample_everywhere(
                context,
                context.players.base_sampler(),
                problems,
                Role.HELPFUL,
                make_rng=lambda problem_id, number: derive_rng(seed, problem_id),
                num_samples=1,
            )
            written = [(sample.text, sample.is_truncated) for (sample,) in drawn]
            is_noisy = context.recipe.noise.is_for_prover
            labels = LabelSource.for_decisions(context, context.folder.root, is_noisy=is_noisy)
        rows = [_graded_row(task, problem, *solution) for problem, solution in zip(problems, written, strict=True)]
        clean = observed = [row["correct"] for row in rows]
        if labels is not None:
            observed = labels.observed(rows, 0)
            labels.close()
        scorer = context.players.scorer(context.round_index)
        with context.stop.sharing():
            scores = scorer([row["problem"] for row in rows], [row["solution"] for row in rows])
        side = cls(*(_describe_scores(rows, scores, known) for known in (observed, clean)))
        if not side.deciding:
            context.alert(
                "no_honest_side", "No helpful solution of the fixed side is correct; parity cannot be measured."
            )
        return side


_PARTS = {"score": "", "error": "/error", "num_scored": "/n"}  # suffix in a held-out figure's key, by what it is


def _last_scores(metrics: Sequence[Mapping[str, Any]], key: str) -> dict[str, float]:
    line: Mapping[str, Any] = next((line for line in reversed(metrics) if key in line), {})
    found = {f"{part}/helpful_correct": line.get(key + suffix) for part, suffix in _PARTS.items()}
    return {name: value for name, value in found.items() if value is not None}


def heldout_scores(key: str, scores: Sequence[float], problem_ids: Sequence[str]) -> dict[str, float | None]:
    """
    Describe the scores of held-out solutions by their mean (under `key`), its standard error and their number.

    The error is that of independent problems: solutions of one problem are alike. None with fewer than two problems.
    """
    table = pd.Series(scores, dtype=float)
    by_problem = table.groupby(list(problem_ids)).mean()
    error = None if len(by_problem) < 2 else float(by_problem.sem())
    return {key: float(table.mean()) if len(table) else None, f"{key}/error": error, f"{key}/n": len(table)}


def _describe_scores(
    rows: Sequence[Mapping[str, Any]], scores: Sequence[float], labels: Sequence[int | bool | None]
) -> dict[str, float]:
    found = [
        (score, row["problem_id"])
        for row, score, label in zip(rows, scores, labels, strict=True)
        if label and row["outcome"] not in FAILED_OUTCOMES
    ]
    return _last_scores([heldout_scores("", *zip(*found, strict=True))], "") if found else {}


def _graded_row(task: Task, problem: dict[str, Any], text: str, is_truncated: bool) -> dict[str, Any]:
    [grade] = grade_solutions(task, [(problem, text)])
    outcome = outcome_of(grade, is_truncated)
    solution = task.solution_in(text)
    return {**problem, "solution": solution, "correct": outcome == Outcome.VERIFIED, "outcome": outcome.value}


def sample_honest_solutions(context: PhaseContext, part: str, sampler: Sampler) -> dict[str, str]:
    """
    Let a prover write `mint.solutions_per_problem` helpful solutions to each problem of a part, and choose the first
    correct one.

    Sneaky prompts show them with `task.honest_source: prover`. All processes must call this.

    Returns: texts by problem, as [`~pvg_hf.tasks.Task.shown_solution`] returns them; problems without a correct
    solution are missing.
    """
    task, problems = context.problems.task, context.problems.parts[part].to_list()
    seed = context.seed("honest solutions")

    def choose(indices: list[int], samples: list[list[Sample]]) -> list[str | None]:
        grades = grade_samples(task, [problems[i] for i in indices], samples)
        return [_first_correct(task, *drawn) for drawn in zip(samples, grades, strict=True)]

    found = sample_everywhere(
        context,
        sampler,
        problems,
        Role.HELPFUL,
        make_rng=lambda problem_id, number: derive_rng(seed, problem_id, number),
        num_samples=context.recipe.mint.solutions_per_problem,
        finish=choose,
    )
    chosen = zip(problems, found, strict=True)
    return {problem["problem_id"]: text for problem, text in chosen if text is not None}


def _first_correct(task: Task, samples: Sequence[Sample], grades: Sequence[Grade]) -> str | None:
    for sample, grade in zip(samples, grades, strict=True):
        if outcome_of(grade, sample.is_truncated) is Outcome.VERIFIED:
            return task.shown_solution(task.solution_in(sample.text))
    return None


def read_honest_solutions(task: Task, pools: Sequence[Path]) -> dict[str, str]:
    """
    Choose the first correct solution to each problem in files of the helpful role, as in [`sample_honest_solutions`].
    """
    rows = load_pool(pools, ["problem_id", "solution", "outcome"]).to_pandas()
    correct = rows[rows["outcome"] == Outcome.VERIFIED].drop_duplicates("problem_id")
    texts = map(task.shown_solution, correct["solution"])
    return dict(zip(correct["problem_id"], texts, strict=True))
