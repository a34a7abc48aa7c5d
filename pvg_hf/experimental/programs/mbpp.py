"""MBPP+ (Austin et al. 2021, arXiv 2108.07732; Liu et al. 2023, arXiv 2305.01210): short functions with many tests."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

from pvg_hf.core.extensions import show_value
from pvg_hf.experimental.programs.code.dataset_task import DatasetProgramTask, ReadProblem, Row
from pvg_hf.experimental.programs.code.parsing import parse_program, parse_python, read_literal
from pvg_hf.experimental.programs.sandbox import NOTHING, CallCase, Comparison, Limits

_FIELDS = ("task_id", "prompt", "code", "test_list", "test")
_EQUAL = Comparison(are_tuples_lists=False)
_IN_ANY_ORDER = replace(_EQUAL, is_ordered=False, are_tuples_lists=True)
_AS_SETS = replace(_IN_ANY_ORDER, counts_repeats=False)
_WRAPPERS = {"set": _AS_SETS, "frozenset": _AS_SETS, "sorted": _IN_ANY_ORDER}
_FLOAT_TOLERANCE = 1e-6  # of MBPP+ for results that are floats, or lists or tuples of them
_CLOSE = 1e-9  # default of `math.isclose`


class MbppTask(DatasetProgramTask):
    """
    The MBPP+ task: functions that a sentence describes, with the three tests of MBPP as visible tests and those of
    MBPP+ as hidden ones.

    The tests are read from the text of the dataset's assertions and never run. A problem whose assertions have another
    form than a call that is compared with a literal is left out. The hidden tests may be such assertions too. The only
    split of the dataset, `test`, has the
    training problems; a recipe's `split.test_share` splits test problems off. The arguments are those of
    [`DatasetProgramTask`], without `num_test`.
    """

    name = "mbpp"
    default_hub_id = "evalplus/mbppplus"
    stored_splits: ClassVar = {"train": "test"}
    limits: ClassVar = Limits(wall_seconds=2.0, processor_seconds=2.0, output_bytes=1 << 20)

    def row_name(self, row: Row) -> str:
        missing = [name for name in _FIELDS if name not in row]
        if missing:
            raise ValueError(f"A row of `mbpp` lacks {missing}; it has {list(row)}.")
        texts = [row["prompt"], *row["test_list"]] if isinstance(row["test_list"], list) else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(
                f"Row {row['task_id']} of `mbpp`: `prompt` must be a text, and `test_list` a list of texts; they are"
                f" {show_value(row['prompt'], 80)} and {show_value(row['test_list'], 80)}. Correct or remove the row."
            )
        return str(row["task_id"])

    def problem_text(self, row: Row) -> str:
        tests = "\n".join([*(row.get("test_imports") or []), *row["test_list"]])
        return f"{row['prompt'].strip()}\nIt must pass these tests:\n{tests}"

    def read_row(self, row: Row) -> ReadProblem | str:
        solution = row["code"].replace("\r\n", "\n").strip("\n")
        tree = parse_program(solution)
        if tree is None:
            return "no solution is a valid program"
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        try:
            visible = [_read_assertion(text, functions) for text in row["test_list"]]
            hidden = list(read_plus_tests(row["test"], functions))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return "tests that are neither `assert f(...) == literal` nor the `inputs` and `results` of MBPP+"
        called = {case.function for case in (*visible, *hidden)}
        if len(called) > 1:
            return "tests of several functions"
        return ReadProblem(
            difficulty=sum(bool(line.strip()) for line in solution.split("\n")),
            visible=tuple(visible),
            hidden=tuple(hidden),
            solutions=(solution,),
            function=next(iter(called), None),
        )


def _find_call(node: ast.expr, functions: set[str]) -> tuple[ast.Call, Comparison]:
    """Find the call of one of `functions`, inside `set` and the like, with the rules of what is wrapped around it."""
    rules = _EQUAL
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id in functions:
            return node, rules
        if node.func.id not in _WRAPPERS or len(node.args) != 1:
            break
        if rules == _EQUAL:
            rules = _WRAPPERS[node.func.id]
        node = node.args[0]
    raise ValueError(f"not a call of {functions}: {ast.unparse(node)[:80]}")


def _unwrap(node: ast.expr) -> ast.expr:
    """Return the argument of `sorted(...)`, `set(...)` and the like, and any other expression as it is."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS and node.args:
        return node.args[0]
    return node


def _read_assertion(text: str, functions: set[str]) -> CallCase:
    """Read `assert f(...) == literal`, with `set` or `sorted` around the call, or with `math.isclose`."""
    match parse_python(text.strip()).body:
        case [ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]))]:
            call, rules = _find_call(left, functions)
            return _make_case(call, read_literal(right if rules == _EQUAL else _unwrap(right)), rules)
        case [ast.Assert(test=ast.Call(func=ast.Attribute(attr="isclose"), args=[left, right], keywords=keywords))]:
            call, rules = _find_call(left, functions)
            tolerance = max([_CLOSE, *(float(read_literal(word.value)) for word in keywords)])
            return _make_case(call, read_literal(right), replace(rules, float_tolerance=tolerance))
    raise ValueError(f"not an assertion that can be read: {text[:80]}")


def _make_case(call: ast.Call, expected: Any, rules: Comparison) -> CallCase:
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        raise ValueError("a test with a starred argument")
    return CallCase(call.func.id, tuple(map(read_literal, call.args)), expected, rules)


def read_plus_tests(text: str, functions: set[str]) -> Iterator[CallCase]:
    """
    Read the tests of MBPP+ from their text, without running it.

    The text assigns `inputs` (lists of arguments) and `results`, and calls `assertion(f(*inp), exp, atol)` in a loop.
    Where it compares with a reference function in place of `results`, the tests have no expected value. A text of
    assertions only, as in MBPP, is read too.

    Raises `ValueError` if the text has another form.
    Raises `SyntaxError` if it is not Python.
    """
    tree = parse_python(text)
    assertions = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    if assertions and all(isinstance(node, ast.Assert) for node in assertions):
        yield from (_read_assertion(ast.unparse(node), functions) for node in assertions)
        return
    values = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    loop = next((node for node in tree.body if isinstance(node, ast.For)), None)
    checks = [] if loop is None else [node for node in ast.walk(loop) if _calls(node, "assertion")]
    if "inputs" not in values or len(checks) != 1 or len(checks[0].args) != 3:
        raise ValueError("not the tests of MBPP+")
    call, rules = _find_call(checks[0].args[0], functions)
    rules = _rules_of_assertion(tree, rules)
    tolerance = float(read_literal(checks[0].args[2]))
    inputs = read_literal(values["inputs"])
    results = read_literal(values["results"]) if "results" in values else [NOTHING] * len(inputs)
    if len(inputs) != len(results):
        raise ValueError(f"{len(inputs)} inputs and {len(results)} results")
    for arguments, expected in zip(inputs, results):
        own = tolerance or (_FLOAT_TOLERANCE if expected is NOTHING or _is_floats(expected) else 0.0)
        yield CallCase(call.func.id, tuple(arguments), expected, replace(rules, float_tolerance=own))


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def _rules_of_assertion(tree: ast.Module, rules: Comparison) -> Comparison:
    """Rules of the function `assertion` in a text: whether it compares values or sets."""
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "assertion"]
    calls = {
        node.func.id
        for one in defined
        for node in ast.walk(one)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    if (
        not defined
        or "bool" in calls
        or any(isinstance(node, ast.Is | ast.IsNot) for one in defined for node in ast.walk(one))
    ):
        raise ValueError("an assertion with other rules")
    return _AS_SETS if "set" in calls else rules


def _is_floats(value: Any) -> bool:
    """Whether MBPP+ compares a value with a tolerance."""
    if isinstance(value, list | tuple):
        return all(isinstance(item, float) for item in value)
    return isinstance(value, float)
