"""Systematic errors of a checker: solutions in a bucket are accepted at rates of their own."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from numbers import Number
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from pvg_hf.config.noise_section import COMPARES_NUMBERS, ErrorsConfig
from pvg_hf.core.extensions import show_value
from pvg_hf.core.seeding import derive_uniform
from pvg_hf.noise.draws import solution_key
from pvg_hf.noise.verdicts import ProblemRow
from pvg_hf.tasks.answers import extract_answer, reference_answer
from pvg_hf.tasks.answers.numbers import read_number

_COMPARISONS = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}


class ErrorBuckets:
    """
    Makes the errors that the section `noise.checker.errors` describes.

    A verdict depends on the seed, the round, the problem and the text only: it is drawn once, by comparing a uniform
    draw with the rate, so that a higher rate accepts every text that a lower rate accepts.

    Args:
        config ([`~pvg_hf.config.noise_section.ErrorsConfig`]):
            The section.
        seed (`int`):
            Seed of the errors.

    Example:

    ```python
    near = {"selector": {"path": "rel_error", "op": "lt", "value": 0.1}, "FPR": 1.0}
    errors = ErrorBuckets(ErrorsConfig(targeted_buckets=[near]), seed=0)
    problem = {"problem_id": "a", "reference": "#### 100"}
    errors.judge(problem, "#### 109", passed=False)  # True: the answer is off by 9 %
    ```
    """

    def __init__(self, config: ErrorsConfig, seed: int):
        self.config = config
        self.seed = seed

    def rates(self, problem: ProblemRow, solution: str) -> tuple[float, float]:
        """Return P(accepted | correct) and P(accepted | incorrect) of a solution."""
        features = _Features(problem, solution, self.seed)
        for bucket in self.config.targeted_buckets:
            if _fits(bucket.selector, features):
                return (
                    self.config.TPR if bucket.TPR is None else bucket.TPR,
                    self.config.FPR if bucket.FPR is None else bucket.FPR,
                )
        return self.config.TPR, self.config.FPR

    def judge(self, problem: ProblemRow, solution: str, passed: bool, *, round_index: int = 0) -> bool:
        """
        Draw the verdict on a solution.

        Args:
            problem (`Mapping`):
                The problem, with `problem_id`, `reference` and the columns that selectors name.
            solution (`str`):
                The text.
            passed (`bool`):
                The verdict without errors.
            round_index (`int`, defaults to 0):
                The round; verdicts are drawn again in each.
        """
        true_rate, false_rate = self.rates(problem, solution)
        key = solution_key(problem["problem_id"], solution)
        return derive_uniform(self.seed, "errors", round_index, key) < (true_rate if passed else false_rate)


class _Features:
    """Values that a selector's `path` can name; each is computed when it is asked for."""

    def __init__(self, problem: ProblemRow, solution: str, seed: int):
        self.problem = problem
        self.solution = solution
        self.seed = seed

    def __getitem__(self, path: str) -> Any:
        return FEATURES[path](self) if path in FEATURES else self.problem.get(path)

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


FEATURES: Mapping[str, Callable[[_Features], Any]] = {
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
"""Values of a solution by the `path` of a selector; any other path is a column of the problem."""


def conditions_of(selector: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions (`path`, `op` and an operand) of a selector."""
    inner = selector.get("all") or selector.get("any")
    if inner is None:
        yield selector
    else:
        yield from (condition for one in inner for condition in conditions_of(one))


def meets(condition: Mapping[str, Any], problem: ProblemRow, solution: str, *, seed: int = 0) -> bool:
    """
    Whether a solution meets a condition.

    Raises:
        ValueError: if the condition compares numbers, and the value is none; or if it is about the distance from the
            reference's answer, and the reference has no answer.
    """
    return _holds(condition, _Features(problem, solution, seed)[condition["path"]])


def _fits(selector: Mapping[str, Any], features: _Features) -> bool:
    if "all" in selector:
        return all(_fits(one, features) for one in selector["all"])
    if "any" in selector:
        return any(_fits(one, features) for one in selector["any"])
    return _holds(selector, features[selector["path"]])


def _holds(condition: Mapping[str, Any], value: Any) -> bool:
    """Whether a value meets a condition; a missing value meets only `ne`."""
    op = condition["op"]
    if value is None:
        return op == "ne"
    if op == "regex":
        return re.search(str(condition["value"]), str(value)) is not None
    if op == "contains":
        return str(condition["value"]) in str(value)
    _check_kinds(condition, value)
    value = _exact(value)
    if op in ("in", "nin"):
        return (value in map(_exact, condition["values"])) == (op == "in")
    if op in COMPARES_NUMBERS and not isinstance(value, Number):
        raise ValueError(
            f"`op: {op}` compares numbers, but `{condition['path']}` is {show_value(value)}; for text, use `eq`, `in`, "
            "`contains` or `regex`"
        )
    if op == "between":
        low, high = map(_exact, condition["range"])
        return low <= value <= high
    return _COMPARISONS[op](value, _exact(condition["value"]))


def _check_kinds(condition: Mapping[str, Any], value: Any) -> None:
    """
    Check that a text is compared with texts, and a number with numbers: unlike kinds are never equal.

    Raises:
        ValueError: if they are of unlike kinds.
    """
    operands = condition.get("values", [condition["value"]] if "value" in condition else [])
    for operand in operands if condition["op"] in ("eq", "ne", "in", "nin") else ():
        if isinstance(value, str) != isinstance(operand, str):
            kinds = ("text", "a number") if isinstance(value, str) else ("a number", "text")
            raise ValueError(
                f"`op: {condition['op']}` compares `{condition['path']}`, which is {kinds[0]} ({show_value(value)}), with "
                f"{operand!r:.40}, which is {kinds[1]}; write it as {kinds[0]}"
            )


def _exact(value: Any) -> Any:
    """Return a finite number as it is written, so that an error of exactly .1 is not below .1."""
    return Fraction(str(value)) if type(value) in (int, float) and math.isfinite(value) else value
