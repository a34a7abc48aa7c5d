"""The MBPP+ task, on rows in the dataset's format."""

import ast
import json
import logging

import pyarrow as pa
import pytest
from pyarrow import parquet

from pvg_hf import load_task
from pvg_hf.core.roles import Role
from pvg_hf.experimental.programs.code.parsing import read_literal
from pvg_hf.experimental.programs.mbpp import read_plus_tests
from pvg_hf.experimental.programs.sandbox import CallCase, Comparison
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.base import outcome_of

ASSERTION = """\
import numpy as np
from math import inf

def is_floats(x) -> bool:
    # check if it is float; List[float]; Tuple[float]
    if isinstance(x, float):
        return True
    if isinstance(x, (list, tuple)):
        return all(isinstance(i, float) for i in x)
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64 or x.dtype == np.float32
    return False


def assertion(out, exp, atol):
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if out != exp and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert out == exp, f"out: {out}, exp: {exp}"

"""


def plus_tests(function, inputs, results, *, called="{}(*inp)", assertion=ASSERTION):
    return (
        f"{assertion}\ninputs = {inputs!r}\nresults = {results!r}\n"
        f"for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion({called.format(function)}, exp, 0)\n"
    )


def row(task_id, prompt, code, test_list, test, **more):
    fields = {"task_id": task_id, "prompt": prompt, "code": code, "source_file": "x.ipynb", "test_imports": []}
    return {**fields, "test_list": test_list, "test": test, **more}


SHARED = row(
    2,
    "Write a function to find the shared elements from the given two lists.",
    "def similar_elements(test_tup1, test_tup2):\r\n  res = tuple(set(test_tup1) & set(test_tup2))\r\n  return (res) ",
    ["assert set(similar_elements((3, 4, 5, 6),(5, 7, 4, 10))) == set((4, 5))"],
    plus_tests(
        "similar_elements",
        [[(3, 4, 5, 6), (5, 7, 4, 10)], [(1, 1, 2), (1, 2)], [(), (1,)]],
        [(4, 5), (2, 1), ()],
        assertion=ASSERTION.replace("out != exp", "set(out) != set(exp)").replace(
            "out == exp", "set(out) == set(exp)"
        ),
    ),
)
AREA = row(
    3,
    "Write a function to find the area of a square.",
    "def area(side):\n  return side * side",
    ["assert math.isclose(area(2.0), 4.000001, rel_tol=0.001)", "assert area(3) == 9"],
    plus_tests("area", [[2.0], [0.1], [float("inf")]], [4.0, 0.01, float("inf")]),
    test_imports=["import math"],
)
FIRST = row(
    4,
    "Write a function to return the first n elements.",
    "def first(xs, n):\n    return xs[:n]",
    ["assert first([1, 2, 3], 2) == [1, 2]"],
    f"{ASSERTION}\n\ndef ref_func(xs, n):\n    return xs[:n]\n\ninputs = [[[1, 2, 3], 1], [[], 4]]\n"
    "for i, inp in enumerate(inputs):\n    assertion(first(*inp), ref_func(*inp), 0)\n",
)
WRONG = row(
    5, "Double it.", "def double(x):\n    return x + 2", ["assert double(2) == 4"], plus_tests("double", [[3]], [6])
)
RANDOM = row(
    6,
    "Draw it.",
    "import random\ndef draw(x):\n    return random.random()",
    ["assert math.isclose(draw(1), 0.5, abs_tol=1)"],
    f"{ASSERTION}\ndef ref_func(x):\n    return 0\n\ninputs = [[1]]\n"
    "for i, inp in enumerate(inputs):\n    assertion(draw(*inp), ref_func(*inp), 0)\n",
)
UNREADABLE = row(
    7, "Match it.", "def match(x):\n    return None", ["assert not match('a')"], plus_tests("match", [["b"]], [0])
)
WITHOUT_TESTS = row(8, "Do it.", "def do(x):\n    return x", ["assert do(1) == 1"], plus_tests("do", [], []))
PLAIN = row(
    10,
    "Triple it.",
    "def triple(x):\n    return 3 * x",
    ["assert triple(2) == 6"],
    "import math\n\nassert triple(0) == 0\nassert set(triple([1])) == set([1])\n"
    "assert math.isclose(triple(0.1), 0.3, rel_tol=1e-3)\n",
)
CHECKED = row(
    11,
    "Halve it.",
    "def halve(x):\n    return x / 2",
    ["assert halve(2) == 1"],
    "def check(candidate):\n    assert candidate(4) == 2\n\ncheck(halve)\n",
)
ROWS = [SHARED, AREA, FIRST, WRONG, RANDOM, UNREADABLE, WITHOUT_TESTS, {**AREA, "task_id": 9}]
UNKNOWN = "tests that are neither `assert f(...) == literal` nor the `inputs` and `results` of MBPP+"
REASONS = {
    "5": "its solutions fail its tests",
    "6": "not deterministic",
    "7": UNKNOWN,
    "8": "no visible and hidden tests",
    "9": "its text occurs twice",
}


@pytest.fixture(autouse=True)
def prepared_in(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def write_rows(folder, rows):
    (folder / "test.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return str(folder)


@pytest.fixture
def task(tmp_path):
    return load_task("mbpp", path=write_rows(tmp_path, ROWS), sandbox="none")


def test_usable_problems_are_read_and_the_others_are_listed(task, caplog):
    with caplog.at_level(logging.WARNING):
        problems = task.problems("train")
    assert problems["problem_id"][:] == ["mbpp-train-2", "mbpp-train-3", "mbpp-train-4"]
    assert problems[1] == {
        "problem_id": "mbpp-train-3",
        "problem": "Write a function to find the area of a square.\nIt must pass these tests:\nimport math\n"
        "assert math.isclose(area(2.0), 4.000001, rel_tol=0.001)\nassert area(3) == 9",
        "reference": "def area(side):\n  return side * side",
        "difficulty": 2,
    }
    assert task.left_out("train") == REASONS
    assert "3 problems are used and 5 are left out" in caplog.text
    assert "5, 6, 7, 8, 9" in caplog.text
    assert task.problems("test") is None


def test_parquet_files_hold_the_same_problems(task, tmp_path):
    (tmp_path / "other" / "data").mkdir(parents=True)
    table = pa.Table.from_pylist(ROWS)
    parquet.write_table(table, tmp_path / "other" / "data" / "test-00000-of-00001-ab.parquet")
    other = load_task("mbpp", path=str(tmp_path / "other"), sandbox="none")
    assert other.problems("train").to_list() == task.problems("train").to_list()


def test_prepared_problems_are_not_run_again(task, tmp_path):
    problems = task.problems("train")
    assert len(list((tmp_path / "cache").rglob("*.json"))) == len(ROWS) - 1
    again = load_task("mbpp", path=str(tmp_path), sandbox="none")
    assert again.problems("train").to_list() == problems.to_list()
    assert again._opened is None  # no sandbox was needed
    assert again.program_tests(problems[1]) == task.program_tests(problems[1])


@pytest.mark.parametrize(
    ("number", "program", "correct", "visible", "hidden"),
    [
        (0, "def similar_elements(a, b):\n    return [x for x in b if x in a][::-1]", True, 1.0, 1.0),
        (0, "def similar_elements(a, b):\n    return [x for x in a if x in b]", True, 1.0, 1.0),  # 1 twice
        (0, "def similar_elements(a, b):\n    return {4, 5}", False, 1.0, 1 / 3),
        (1, "def area(side):\n    return side ** 2", True, 1.0, 1.0),
        (1, "def area(side):\n    return 4.0 if side == 2 else 9", False, 1.0, 1 / 3),
        (2, "def first(xs, n):\n    return [x for i, x in enumerate(xs) if i < n]", True, 1.0, 1.0),
        (2, "def first(xs, n):\n    return tuple(xs[:n])", False, 0.0, 0.0),  # in Python, no tuple equals a list
        (2, "def first(xs, n):\n    return [1, 2][:n]", False, 1.0, 0.5),
    ],
)
def test_programs_are_graded_by_the_rules_of_the_dataset(task, number, program, correct, visible, hidden):
    problem = task.problems("train")[number]
    grade = task.grade(problem, f"Here it is:\n```python\n{program}\n```")
    assert (grade.correct, grade.detail["visible_pass_rate"]) == (correct, visible)
    assert grade.detail["hidden_pass_rate"] == pytest.approx(hidden)
    assert outcome_of(grade, False) == ("VERIFIED" if correct else "PROOF_INVALID")
    assert (grade.detail["failing_input"] is None) == correct


def test_every_reference_is_correct(task):
    assert all(task.grade(problem, problem["reference"]).correct for problem in task.problems("train"))


def test_prompts_show_the_tests_and_the_honest_program(task):
    problem = task.problems("train")[0]
    for role in Role:
        text = PromptBuilder(task, few_shot=2).text(problem, role)
        assert problem["problem"] in text
        assert ("count_long" in text) == (role is not Role.SNEAKY)  # its examples have no wrong program
    sneaky = PromptBuilder(task, sneaky_sees="honest_solution").text(problem, Role.SNEAKY, "def g(): pass")
    assert "```python\ndef g(): pass\n```" in sneaky


@pytest.mark.parametrize("example", [0, 1])
def test_the_solutions_of_the_examples_pass_their_tests(task, example):
    shown = task.few_shot_examples[example]
    lines = shown["problem"].split("\n")[2:]
    names = {}
    exec("\n".join([shown["solution"], *lines]), names)


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"num_train": 0}, ROWS, "`num_train` must be at least 1, .* got 0"),
        ({"num_train": 4}, ROWS, "`num_train` is 4, but only 3"),
        (
            {},
            [WRONG, WITHOUT_TESTS],
            "No problem .* 1 x its solutions fail its tests, 1 x no visible and hidden tests",
        ),
        ({}, [], "can be used: there is none"),
        ({}, [{"prompt": "x"}], r"lacks \['task_id', 'code', 'test_list', 'test'\]"),
    ],
    ids=["none", "too many", "all left out", "empty", "other columns"],
)
def test_mistakes_are_one_clear_error(tmp_path, options, rows, message):
    folder = write_rows(tmp_path, rows)
    with pytest.raises(ValueError, match=message):
        load_task("mbpp", path=folder, sandbox="none", **options).problems("train")


def test_files_that_are_missing_or_damaged_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"holds no file `test\*.jsonl`"):
        load_task("mbpp", path=str(tmp_path)).problems("train")
    with pytest.raises(ValueError, match=r"`path` is `.*nowhere`, which is not a folder"):
        load_task("mbpp", path=str(tmp_path / "nowhere")).problems("train")
    (tmp_path / "test.jsonl").write_text('{"task_id": 1}\n{')
    with pytest.raises(ValueError, match=r"test.jsonl, line 2 is not JSON|lacks"):
        load_task("mbpp", path=str(tmp_path)).problems("train")
    (tmp_path / "test.jsonl").write_text("1\n")
    with pytest.raises(ValueError, match=r"test.jsonl, line 1 is 1; it must be an object"):
        load_task("mbpp", path=str(tmp_path)).problems("train")


def test_a_problem_of_another_dataset_has_no_tests(task):
    with pytest.raises(ValueError, match="has no problem `mbpp-train-77`"):
        task.grade({"problem_id": "mbpp-train-77", "problem": "", "reference": ""}, "def f(): pass")


def test_plus_tests_are_read_without_being_run():
    cases = list(read_plus_tests(SHARED["test"], {"similar_elements"}))
    rules = Comparison(is_ordered=False, counts_repeats=False)
    assert cases[1] == CallCase("similar_elements", ((1, 1, 2), (1, 2)), (2, 1), rules)
    floats = list(read_plus_tests(AREA["test"], {"area"}))
    assert floats[1] == CallCase("area", (0.1,), 0.01, Comparison(float_tolerance=1e-6, are_tuples_lists=False))
    for text in ("import os\nos.abort()", AREA["test"].replace("inputs", "values"), "import os", CHECKED["test"]):
        with pytest.raises(ValueError, match="not the tests"):
            list(read_plus_tests(text, {"area"}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, (2, -3.5), {'a': None}]", [1, (2, -3.5), {"a": None}]),
        ("{float('inf'), -inf}", None),
        ("[inf, -inf, float('-inf')]", [float("inf"), -float("inf"), -float("inf")]),
        ("[set(), {1, 2}, frozenset([1])]", [set(), {1, 2}, frozenset([1])]),
        ("1 + 2j", 1 + 2j),
        ("__import__('os')", None),
        ("[x for x in y]", None),
        ("{[1]: 2}", None),
        ("set([[1]])", None),
        ("list('ab')", ["a", "b"]),
    ],
)
def test_literals_are_read_and_nothing_else(text, value):
    node = ast.parse(text, mode="eval").body
    if value is None:
        with pytest.raises(ValueError, match=r"literal|malformed node"):
            read_literal(node)
    else:
        assert read_literal(node) == value


def test_a_number_of_test_problems_that_are_not_there_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="`num_test` is 4, but `evalplus/mbppplus` has no test problems"):
        load_task("mbpp", path=write_rows(tmp_path, ROWS), num_test=4).problems("test")


@pytest.mark.parametrize("value", [None, 3])
def test_a_row_with_a_column_of_another_type_is_left_out(tmp_path, value):
    odd = {**CHECKED, "task_id": 12, "test": value}
    task = load_task("mbpp", path=write_rows(tmp_path, [PLAIN, odd]), sandbox="none")
    task.problems("train")
    assert task.left_out("train")["12"].startswith("a column of another type")
    for column in ({"prompt": value}, {"test_list": value}, {"test_list": [value]}):
        task = load_task("mbpp", path=write_rows(tmp_path, [PLAIN, {**odd, **column}]), sandbox="none")
        with pytest.raises(ValueError, match=f"Row 12 of `mbpp`: `prompt` must be a text.*{value}"):
            task.problems("train")


def test_plain_assertions_are_hidden_tests_too(tmp_path):
    task = load_task("mbpp", path=write_rows(tmp_path, [PLAIN, CHECKED]), sandbox="none")
    (problem,) = task.problems("train")
    tests = task.program_tests(problem)
    assert [(case.arguments, case.expected) for case in tests.visible] == [((2,), 6)]
    assert [(case.arguments, case.expected) for case in tests.hidden] == [((0,), 0), (([1],), [1]), ((0.1,), 0.3)]
    assert tests.hidden[1].comparison == Comparison(is_ordered=False, counts_repeats=False)
    assert tests.hidden[2].comparison.float_tolerance == 1e-3
    assert task.left_out("train") == {"11": UNKNOWN}
