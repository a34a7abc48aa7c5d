"""Balanced best-of-n as a module of `evaluate`."""

import datasets
import evaluate
import pandas as pd

from pvg_hf.evaluation.best_of_n import balanced_best_of_n

DESCRIPTION = """\
Share of correct choices if the highest score is chosen among n/2 correct and n/2 incorrect solutions to a problem, \
exactly and over all draws without replacement (Kirchner et al. 2024, fig. 6b). Chance is 0.5."""

INPUTS = """\
Args:
    predictions (`list[float]`): verifier scores.
    references (`list[int]`): 1 for a correct solution, 0 for an incorrect one.
    problem_ids (`list[str]`): problem of each solution.
    n (`int`, defaults to 2): number of solutions to choose from; even.
Returns:
    balanced_best_of_n (`float`): mean over eligible problems, in [0, 1]; `None` if there is none.
    low, high (`float`): bounds of the 95 % interval.
    num_eligible (`int`): problems with n/2 correct and n/2 incorrect solutions.
"""


class BalancedBestOfN(evaluate.Metric):
    """Wraps [`~pvg_hf.evaluation.best_of_n.balanced_best_of_n`]."""

    def _info(self) -> evaluate.MetricInfo:
        columns = {"predictions": datasets.Value("float64"), "references": datasets.Value("int32")}
        features = datasets.Features({**columns, "problem_ids": datasets.Value("string")})
        return evaluate.MetricInfo(description=DESCRIPTION, citation="", inputs_description=INPUTS, features=features)

    def _compute(self, predictions, references, problem_ids, n: int = 2) -> dict[str, float | int | None]:
        rows = pd.DataFrame({"score": predictions, "correct": references, "problem_id": problem_ids})
        figure = balanced_best_of_n(rows, n)
        return {
            "balanced_best_of_n": figure.value,
            "low": figure.low,
            "high": figure.high,
            "num_eligible": figure.n,
        }
