"""Systematic errors of a checker: solutions in a bucket are accepted at rates of their own."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from pvg_hf.config.conditions import Condition
from pvg_hf.config.noise_section import ErrorsConfig
from pvg_hf.core.seeding import derive_uniform
from pvg_hf.noise.draws import solution_key
from pvg_hf.noise.verdicts import ProblemRow
from pvg_hf.tasks.answers import extract_answer, reference_answer
from pvg_hf.tasks.answers.numbers import read_number


class ErrorBuckets:
    """
    Makes the errors that the section `noise.checker.errors` describes.

    A verdict depends on the seed, the round, the problem and the text only: it is drawn once, by comparing a uniform
    draw with the rate, so that a higher rate accepts every text that a lower rate accepts.

    Example:

    ```python
    near = {"selector": "rel_error < 0.1", "FPR": 1.0}
    errors = ErrorBuckets(ErrorsConfig(targeted_buckets=[near]), seed=0)
    problem = {"problem_id": "a", "reference": "#### 100"}
    errors.judge(problem, "#### 109", passed=False)  # True: the answer is off by 9 %
    ```
    """

    def __init__(self, config: ErrorsConfig, seed: int):
        self.config = config
        self.seed = seed
        self._conditions = [Condition(bucket.selector) for bucket in config.targeted_buckets]

    def rates(self, problem: ProblemRow, solution: str) -> tuple[float, float]:
        """Return P(accepted | correct) and P(accepted | incorrect) of a solution."""
        values = SolutionValues(problem, solution, self.seed)
        for bucket, fits in zip(self.config.targeted_buckets, self._conditions, strict=True):
            if fits(values):
                default = self.config
                return (
                    default.TPR if bucket.TPR is None else bucket.TPR,
                    default.FPR if bucket.FPR is None else bucket.FPR,
                )
        return self.config.TPR, self.config.FPR

    def judge(self, problem: ProblemRow, solution: str, passed: bool, *, round_index: int = 0) -> bool:
        """
        Draw the verdict on a solution.

        Args:
            problem: The problem, with `problem_id`, `reference` and the columns that selectors name.
            round_index: The round; verdicts are drawn again in each.
        """
        true_rate, false_rate = self.rates(problem, solution)
        key = solution_key(problem["problem_id"], solution)
        return derive_uniform(self.seed, "errors", round_index, key) < (true_rate if passed else false_rate)


class SolutionValues:
    """
    Values that a selector can name: [`FEATURES`] and the problem's columns. Each is computed when it is asked for.
    """

    def __init__(self, problem: ProblemRow, solution: str, seed: int):
        self.problem = problem
        self.solution = solution
        self.seed = seed

    def get(self, name: str) -> Any:
        return FEATURES[name](self) if name in FEATURES else self.problem.get(name)

    @property
    def answer(self) -> str | None:
        return extract_answer(self.solution)

    @property
    def error(self) -> Fraction | None:
        """The answer minus the reference's; `None` unless both are numbers."""
        answer, expected = self.answer_value, self.expected
        return None if answer is None or expected is None else answer - expected

    @property
    def relative_error(self) -> Fraction | None:
        return self.error / abs(self.expected) if self.error is not None and self.expected else None

    @property
    def answer_value(self) -> Fraction | None:
        return _value(self.answer)

    @property
    def expected(self) -> Fraction | None:
        return _value(reference_answer(self.problem["reference"]))


def _value(answer: str | None) -> Fraction | None:
    number = None if answer is None else read_number(answer)
    return None if number is None else number.value


def _absolute(value: Fraction | None) -> Fraction | None:
    return None if value is None else abs(value)


FEATURES: Mapping[str, Callable[[SolutionValues], Any]] = {
    "rel_error": lambda one: _absolute(one.relative_error),
    "signed_rel_error": lambda one: one.relative_error,
    "abs_error": lambda one: _absolute(one.error),
    "signed_abs_error": lambda one: one.error,
    "pred_abs": lambda one: _absolute(one.answer_value),
    "completion_extracted": lambda one: one.answer,
    "completion_full": lambda one: one.solution,
    "completion_full_chars": lambda one: len(one.solution),
    "problem_draw": lambda one: derive_uniform(one.seed, "errors", "problem", one.problem["problem_id"]),
}
"""Values of a solution that a selector can name; any other name is a column of the problem."""
