"""Conditions on a problem, as a recipe writes them: a column, a comparison, or a function of the user's own."""

import operator
import re
from collections.abc import Callable

import yaml

from pvg_hf.extensions import load_function, running
from pvg_hf.noise.verdicts import Problem

_COMPARISON = re.compile(r"\s*(\w+)\s*(==|!=|>=|<=|>|<)\s*(.+?)\s*")
_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class Predicate:
    """
    Args:
        text (`str`):
            A column that is true or false, `COLUMN OPERATOR VALUE` with one of `== != >= <= > <` (`difficulty >= 5`), or
            `package.module:Name` of a function of the problem.

    Attributes:
        column (`str`, *optional*):
            That it reads; `None` for a function.

    Raises:
        ValueError: if it is none of these.
    """

    def __init__(self, text: str):
        self.text = text
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None and ":" in text:
            self.column, self._holds = None, _load_function(text)
        elif comparison is None and text.isidentifier():
            self.column, self._holds = text, lambda problem: problem[text]
        elif comparison is not None:
            self.column, sign, value = comparison[1], comparison[2], yaml.safe_load(comparison[3])
            self._holds = lambda problem: _OPERATORS[sign](problem[self.column], value)
        else:
            raise ValueError(
                f"Cannot read the condition `{text}`: it is a column, a comparison such as `difficulty >= 5`, or "
                "`package.module:Name`."
            )

    @property
    def is_column(self) -> bool:
        """Whether the condition is a column itself."""
        return self.text == self.column

    def __call__(self, problem: Problem) -> bool:
        return bool(self._holds(problem))


def _load_function(spec: str) -> Callable[[Problem], bool]:
    function = load_function(spec, "condition", "(problem) -> bool")

    def holds(problem: Problem) -> bool:
        with running(f"The condition `{spec}`, asked about the problem `{problem.get('problem_id')}`,"):
            return function(problem)

    return holds
