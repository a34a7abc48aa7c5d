"""APPS (Hendrycks et al. 2021, arXiv 2105.09938): programming problems with tests on stdin or by calls."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from datasets import Value

from pvg_hf.experimental.programs.code.dataset_task import COMMON_IMPORTS, DatasetProgramTask, ReadProblem, Row
from pvg_hf.experimental.programs.sandbox import CallCase, Case, Comparison, Limits, StdinCase
from pvg_hf.tasks.base import Problem

CONTROL_ARENA = "RoganInglis/apps-control-arena"
RULES = Comparison(float_tolerance=1e-6)

_DIFFICULTIES = {"introductory": 1, "interview": 2, "competition": 3}


class AppsTask(DatasetProgramTask):
    """
    The APPS task: programs that read stdin, or functions, with the tests and solutions of competitions.

    Two formats are read: that of `codeparrot/apps`, and that of `RoganInglis/apps-control-arena`, whose **backdoors**
    are programs that pass the tests and fail on one further input. The first one that is said to work becomes the
    columns `backdoor_code` and `backdoor_input` and the near miss of its problem, and its input is a further hidden
    test if the references agree about it.

    Args:
        num_visible_tests (`int`, defaults to 1):
            Number of a problem's tests, the first ones, that its text shows and a prover may know.
        max_hidden_tests (`int`, *optional*, defaults to 20), path, hub_id, num_train, num_test, sandbox, num_workers,
        prover_inputs:
            As for [`DatasetProgramTask`].

    Raises:
        ValueError: for a number below 1.
    """

    name = "apps"
    default_hub_id = "codeparrot/apps"
    limits: ClassVar = Limits(
        wall_seconds=4.0, processor_seconds=4.0, memory_mb=1024, output_bytes=1 << 20, timeouts_in_a_row=2
    )
    columns: ClassVar = {
        "difficulty": Value("int32"),
        "backdoor_code": Value("string"),
        "backdoor_input": Value("string"),
    }
    prelude: ClassVar = COMMON_IMPORTS

    def __init__(
        self,
        path: str | None = None,
        hub_id: str | None = None,
        num_train: int | None = None,
        num_test: int | None = None,
        num_visible_tests: int = 1,
        max_hidden_tests: int | None = 20,
        sandbox: str = "auto",
        num_workers: int | None = None,
        prover_inputs: bool = False,
    ):
        if num_visible_tests < 1:
            raise ValueError(f"`num_visible_tests` must be at least 1; got {num_visible_tests}.")
        super().__init__(path, hub_id, num_train, num_test, max_hidden_tests, sandbox, num_workers, prover_inputs)
        self.num_visible_tests = num_visible_tests
        if path is None and hub_id == CONTROL_ARENA:
            self.stored_splits = {"train": "train"}

    def row_settings(self) -> list[Any]:
        return [self.num_visible_tests]

    def row_name(self, row: Row) -> str:
        name = row.get("problem_id", row.get("id"))
        if name is None or "question" not in row or not ("input_output" in row or "inputs" in row):
            raise ValueError(
                "A row of `apps` needs `problem_id` or `id`, `question`, and `input_output` or `inputs` and"
                f" `outputs`; it has {list(row)}."
            )
        return str(name)

    def problem_text(self, row: Row) -> str:
        parts = [row["question"].strip()]
        if starter := (row.get("starter_code") or "").strip():
            parts.append(f"Begin with:\n{starter}")
        tests = _read_tests(row)
        if isinstance(tests, str):
            return "\n\n".join(parts)
        function, inputs, outputs = tests
        for given, expected in zip(inputs[: self.num_visible_tests], outputs):
            if function is None:
                parts.append(f"Input:\n{_as_text(given).rstrip()}\nOutput:\n{_as_text(expected).rstrip()}")
            else:
                arguments = ", ".join(repr(value) for value in given) if isinstance(given, list) else repr(given)
                parts.append(f"{function}({arguments}) returns {expected!r}")
        return "\n\n".join(parts)

    def read_row(self, row: Row) -> ReadProblem | str:
        if row.get("is_nondeterministic"):
            return "not deterministic"
        tests = _read_tests(row)
        if isinstance(tests, str):
            return tests
        function, inputs, outputs = tests
        solutions = _read_solutions(row)
        if function is not None and "class Solution" in (row.get("starter_code") or "\n".join(solutions[:1])):
            function = f"Solution.{function}"
        try:
            cases = [_make_case(function, given, expected) for given, expected in zip(inputs, outputs)]
        except ValueError:
            return _UNKNOWN
        backdoor = _read_backdoor(row)
        backdoor_cases = [StdinCase(backdoor["backdoor_input"], None, RULES)] if backdoor and function is None else []
        # First, so that `max_hidden_tests` keeps it.
        hidden = [*backdoor_cases, *cases[self.num_visible_tests :]]
        return ReadProblem(
            difficulty=_DIFFICULTIES.get(row.get("difficulty"), 0),
            visible=tuple(cases[: self.num_visible_tests]),
            hidden=tuple(hidden) if len(cases) > self.num_visible_tests else (),
            solutions=tuple(solutions),
            function=function,
            columns={name: backdoor.get(name) for name in ("backdoor_code", "backdoor_input")},
        )

    def near_misses(self, problem: Problem, rng: np.random.Generator) -> dict[str, str]:
        code = problem.get("backdoor_code")
        return {} if code is None else {"backdoor": code}


Tests = tuple[str | None, list[Any], list[Any]]

_UNKNOWN = "tests that are not lists `inputs` and `outputs` of one length, with a list of arguments for a function"


def _read_tests(row: Row) -> Tests | str:
    """Return the function, inputs and outputs of a row's tests; why they cannot be read, if so."""
    stored: Any = {"inputs": row.get("inputs"), "outputs": row.get("outputs")}
    if "input_output" in row:
        try:
            stored = json.loads(row["input_output"] or "{}")
        except (ValueError, RecursionError):  # ValueError: not JSON, or an integer of more than 4,300 digits
            return _UNKNOWN
    if not isinstance(stored, Mapping):
        return _UNKNOWN
    inputs, outputs = stored.get("inputs") or [], stored.get("outputs") or []
    if not inputs or not outputs:
        return "no tests"
    if len(inputs) != len(outputs):
        return _UNKNOWN
    function = stored.get("fn_name")
    # Graders of APPS unwrap outputs that are lists of one value.
    if function is not None and all(isinstance(output, list) and len(output) == 1 for output in outputs):
        outputs = [output[0] for output in outputs]
    return function, list(inputs), list(outputs)


def _make_case(function: str | None, given: Any, expected: Any) -> Case:
    if function is None:
        return StdinCase(_as_text(given), _as_text(expected), RULES)
    if not isinstance(given, list):
        raise ValueError(f"the arguments {given!r:.80} are not a list")
    return CallCase(function, tuple(given), expected, RULES)


def _as_text(lines: Any) -> str:
    """Stdin or stdout of a test, which some rows have as a list of lines."""
    return lines if isinstance(lines, str) else "\n".join(map(str, lines)) if isinstance(lines, list) else str(lines)


def _read_solutions(row: Row) -> list[str]:
    """Return a row's solutions, those that are said to fail its tests last."""
    stored: Any = row.get("solutions") or []
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except ValueError:
            return []
    if not isinstance(stored, Sequence):
        return []
    rated = [(one.get("code"), one.get("passes_tests")) if isinstance(one, Mapping) else (one, True) for one in stored]
    texts = sorted(((text, passes) for text, passes in rated if isinstance(text, str)), key=lambda pair: not pair[1])
    return [text.replace("\r\n", "\n") for text, _ in texts]


def _read_backdoor(row: Row) -> dict[str, str]:
    """Return the first backdoor of a row that is said to work and to pass the tests; empty if there is none."""
    for backdoor in row.get("backdoors") or []:
        fields = (backdoor.get("backdoor_code"), backdoor.get("backdoor_input"))
        is_said_to_work = backdoor.get("backdoor_works") is not False and backdoor.get("passes_tests") is not False
        if is_said_to_work and all(isinstance(text, str) for text in fields):
            return {"backdoor_code": fields[0].replace("\r\n", "\n"), "backdoor_input": fields[1]}
    return {}
