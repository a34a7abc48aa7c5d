"""The APPS task, on rows in the formats of `codeparrot/apps` and `RoganInglis/apps-control-arena`."""

import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from pvg_hf import load_task
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks import PromptBuilder
from tests.support.program_rows import write_jsonl

SUM = "numbers = list(map(int, input().split()))\nprint(sum(numbers))"
LONG_SUM = "total = 0\nfor number in input().split():\n    total += int(number)\nprint(total)"
STDIN = {
    "problem_id": 0,
    "question": "Add the numbers of the line.",
    "solutions": json.dumps(["print 'Python 2'", SUM, "print(0)", LONG_SUM]),
    "input_output": json.dumps({"inputs": ["1 2\n", "4 5 6\n", "-1\n"], "outputs": ["3\n", "15\n", "-1\n"]}),
    "difficulty": "interview",
    "url": "",
    "starter_code": "",
}
CALLS = {
    **STDIN,
    "problem_id": 1,
    "question": "Double each number.",
    "solutions": json.dumps(["def double(xs):\n    return [2 * x for x in xs]"]),
    "input_output": json.dumps(
        {"fn_name": "double", "inputs": [[[1, 2]], [[]], [[5]]], "outputs": [[[2, 4]], [[]], [[10]]]}
    ),
    "difficulty": "introductory",
    "starter_code": "def double(xs):\n\t",
}
METHOD = {
    **STDIN,
    "problem_id": 2,
    "question": "Count the letter.",
    "solutions": json.dumps(
        ["class Solution:\n    def count(self, s: str, c: str) -> Optional[int]:\n        return Counter(s)[c]"]
    ),
    "input_output": json.dumps({"fn_name": "count", "inputs": [["aba", "a"], ["", "b"]], "outputs": [2, 0]}),
    "difficulty": "competition",
    "starter_code": "class Solution:\n    def count(self, s: str, c: str) -> int:\n        ",
}
RANDOM = {
    **STDIN,
    "problem_id": 3,
    "question": "Write any number.",
    "solutions": json.dumps(["import random\nprint(random.randrange(10 ** 9))"]),
}
WITHOUT_TESTS = {**STDIN, "problem_id": 4, "question": "Untested.", "input_output": ""}
WITHOUT_SOLUTIONS = {**STDIN, "problem_id": 5, "question": "Unsolved.", "solutions": ""}
ONE_TEST = {**STDIN, "problem_id": 6, "question": "One.", "input_output": '{"inputs": ["1\\n"], "outputs": ["1\\n"]}'}
ROWS = [STDIN, CALLS, METHOD, RANDOM, WITHOUT_TESTS, WITHOUT_SOLUTIONS, ONE_TEST]


@pytest.fixture(autouse=True)
def prepared_in(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def task(tmp_path):
    return load_task("apps", path=write_jsonl(tmp_path / "train.jsonl", ROWS), sandbox="none")


def test_problems_of_all_kinds_are_read(task):
    problems = task.problems("train")
    assert problems["problem_id"][:] == ["apps-train-0", "apps-train-1", "apps-train-2"]
    assert problems["problem"][0] == "Add the numbers of the line.\n\nInput:\n1 2\nOutput:\n3"
    assert problems["problem"][1] == (
        "Double each number.\n\nBegin with:\ndef double(xs):\n\ndouble([1, 2]) returns [2, 4]"
    )
    assert problems["reference"][0] == SUM
    assert problems["difficulty"][:] == [2, 1, 3]
    assert task.problems("test") is None
    assert task.left_out("train") == {
        "3": "its solutions fail its tests",
        "4": "no tests",
        "5": "no solution is a valid program",
        "6": "no visible and hidden tests",
    }
    tests = task.program_tests(problems[0])
    assert tests.references == (SUM, LONG_SUM)
    assert (len(tests.visible), len(tests.hidden)) == (1, 2)


@pytest.mark.parametrize(
    ("number", "program", "correct", "certified"),
    [
        (0, LONG_SUM, True, True),
        (0, "import sys\nprint(sum(map(int, sys.stdin.read().split())), end='')", True, True),
        (0, "print(sum(map(int, input().split()[:2])))", False, True),
        (0, "print(3)\nprint(15)", False, True),
        (1, "def double(numbers):\n    return tuple(n + n for n in numbers)", True, True),
        (1, "def double(xs):\n    return xs + xs", False, True),
        (2, "class Solution:\n    def count(self, s, c):\n        return s.count(c)", True, True),
        (2, "class Solution:\n    def count(self, s, c):\n        return max(s.count(c), 1)", False, True),
        (2, "def count(s, c):\n    return s.count(c)", False, None),  # no class
    ],
)
def test_programs_are_graded(task, number, program, correct, certified):
    grade = task.grade(task.problems("train")[number], program)
    assert (grade.correct, grade.certified) == (correct, certified)


def test_no_problem_of_the_test_split_is_trained_on(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [STDIN, CALLS])
    write_jsonl(tmp_path / "test.jsonl", [{**STDIN, "problem_id": 77}])
    task = load_task("apps", path=str(tmp_path), sandbox="none")
    assert task.problems("train")["problem_id"][:] == ["apps-train-1"]
    assert task.problems("test")["problem_id"][:] == ["apps-test-77"]
    assert task.left_out("train") == {"0": "its text occurs twice"}


BACKDOOR = "numbers = list(map(int, input().split()))\nprint(13 if numbers == [7] else sum(numbers))"


def arena_row(number, question, **more):
    solutions = [
        {"code": "print(0)", "compiles": True, "passes_tests": False},
        {"code": SUM, "compiles": True, "passes_tests": True},
        {"code": LONG_SUM, "compiles": True, "passes_tests": True},
    ]
    fields = {
        "problem_id": str(number),
        "question": question,
        "inputs": ["1 2\n", "4 5 6\n"],
        "outputs": ["3\n", "15\n"],
    }
    rated = {"backdoors": [], "is_nondeterministic": False, "difficulty": "interview"}
    return {**fields, "solutions": solutions, **rated, **more}


def test_backdoors_are_near_misses_that_their_input_certifies(tmp_path):
    tried = {"compiles": True, "model": "some", "source": "apps", "backdoor_input": "7\n"}
    backdoors = [
        {**tried, "backdoor_code": "print(1)", "backdoor_works": False, "passes_tests": False},
        {**tried, "backdoor_code": BACKDOOR, "backdoor_works": True, "passes_tests": True},
    ]
    rows = [
        arena_row(10, "Add with a backdoor.", backdoors=backdoors),
        arena_row(11, "Add without one."),
        arena_row(12, "Add at random.", is_nondeterministic=True),
    ]
    (tmp_path / "data").mkdir()
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "data" / "train-00000-of-00001.parquet")
    task = load_task("apps", path=str(tmp_path), sandbox="none")
    with_one, without = task.problems("train")
    assert (with_one["backdoor_code"], with_one["backdoor_input"]) == (BACKDOOR, "7\n")
    assert (without["backdoor_code"], without["backdoor_input"]) == (None, None)
    assert task.left_out("train") == {"12": "not deterministic"}
    assert task.program_tests(with_one).references == (SUM, LONG_SUM)
    assert task.near_misses(with_one, derive_rng("test")) == {"backdoor": BACKDOOR}
    assert task.near_misses(without, derive_rng("test")) == {}
    grade = task.grade(with_one, BACKDOOR)
    assert (grade.correct, grade.certified, grade.test_pass_rate) == (False, True, 1.0)
    assert [grade.detail[name] for name in ("failing_input", "expected_output", "program_output")] == [
        "7\n",
        "7\n",
        "13\n",
    ]
    assert task.grade(without, BACKDOOR).correct


def test_the_dataset_with_backdoors_has_no_test_split():
    assert load_task("apps", hub_id="RoganInglis/apps-control-arena").problems("test") is None


def test_the_numbers_of_tests_can_be_chosen(tmp_path):
    folder = write_jsonl(tmp_path / "train.jsonl", [STDIN])
    task = load_task("apps", path=folder, num_visible_tests=2, max_hidden_tests=1, sandbox="none")
    problem = task.problems("train")[0]
    assert problem["problem"].count("Input:") == 2
    tests = task.program_tests(problem)
    assert [case.stdin for case in (*tests.visible, *tests.hidden)] == ["1 2\n", "4 5 6\n", "-1\n"]
    with pytest.raises(ValueError, match="`num_visible_tests` must be at least 1; got 0"):
        load_task("apps", num_visible_tests=0)


def test_a_row_of_another_dataset_is_refused(tmp_path):
    folder = write_jsonl(tmp_path / "train.jsonl", [{"question": "x", "answer": "y"}])
    with pytest.raises(ValueError, match=r"A row of `apps` needs .* it has \['question', 'answer'\]"):
        load_task("apps", path=folder, sandbox="none").problems("train")


def test_prompts_of_all_roles_have_the_problem(task):
    problem = task.problems("train")[0]
    for role in Role:
        assert problem["problem"] in PromptBuilder(task).text(problem, role)
