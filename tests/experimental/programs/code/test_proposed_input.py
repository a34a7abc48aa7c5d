"""Inputs that provers propose: reading them, their validity, and the certificates that they give."""

import json

import pytest

from pvg_hf import load_task
from pvg_hf.core.roles import Role
from pvg_hf.data.schema import solution_features
from pvg_hf.experimental.programs.code import PROGRAM_COLUMNS
from pvg_hf.experimental.programs.code.proposed_input import input_bounds, is_within, read_input, split_input
from pvg_hf.experimental.programs.sandbox import CallCase, Comparison, StdinCase
from pvg_hf.sampling import Sample
from pvg_hf.sampling.sampler import make_rows
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.base import outcome_of
from tests.support.program_rows import sum_row, write_jsonl


@pytest.mark.parametrize(
    ("text", "solution", "proposed"),
    [
        ("def f(): pass", "def f(): pass", None),
        ("```python\nx = 1\n```\n\n```input\n[1], 2\n```\n", "```python\nx = 1\n```", "[1], 2\n"),
        ("x = 1\n```input\n3\r\n1 2\r\n```\r\n", "x = 1", "3\n1 2\n"),
        ("x = 1\n  ~~~ Input\n3", "x = 1", "3"),  # not closed
        ("x = 1\n```input", "x = 1", ""),
        ("x = 1\n```input\n3\n```\nIt fails since ...\n```input\n4\n```", "x = 1", "3\n"),
        ("x = 1\n```inputs\n3\n```", "x = 1\n```inputs\n3\n```", None),
        ("x = 1  # ```input", "x = 1  # ```input", None),
    ],
)
def test_the_first_block_and_all_that_follows_is_no_part_of_the_solution(text, solution, proposed):
    assert split_input(text) == (solution, proposed)


CALLS = [
    CallCase("Solution.f", ([3, -1], "ab"), 1, Comparison(is_ordered=False)),
    CallCase("Solution.f", ([], "Ab c"), 2.0, Comparison(float_tolerance=1e-3)),
]
LINES = [StdinCase("2\n5 9 \n1 0\n", ""), StdinCase("1\n7 2", "")]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("[1, 2], 'a'", ([1, 2], "a")),
        ("[1, 2],\n  'a'  # fails", ([1, 2], "a")),
        ("f([1, 2], 'a')", ([1, 2], "a")),
        ("([1, 2], 'a')", (([1, 2], "a"),)),
        ("", ()),
        ("g([1])", None),
        ("xs=[1]", None),
        ("*[1]", None),
        ("1), __import__('os').abort(", None),
        ("1)\nimport os\n(2", None),
        ("__import__('os').abort()", None),
        ("[1", None),
        ("[x for x in 'ab']", None),
        ("{[1]: 2}", None),
        ("...", None),
        ("\0", None),
        ("-" * 1999 + "1", None),
        ("[" * 900 + "]" * 900, None),
        ("0" + "_0" * 900 + "x", None),
        ("'" + "a" * 2000 + "'", None),  # more than 2,000 characters
    ],
)
def test_arguments_are_read_and_malformed_texts_are_no_input(text, arguments):
    case = read_input(text, CALLS)
    assert (None if case is None else case.arguments) == arguments


def test_a_proposed_input_is_compared_by_the_loosest_rules_of_the_tests():
    assert read_input("1", CALLS).comparison == Comparison(float_tolerance=1e-3, is_ordered=False)
    assert read_input("1", LINES) == StdinCase("1\n", None, Comparison(float_tolerance=1e-6))


@pytest.mark.parametrize(
    ("text", "is_like_tests"),
    [
        ("[3, 0], 'b A'", True),
        ("[], 'cc'", True),
        ("[3, 0]", False),  # too few arguments
        ("[3, 0], 'ab', 1", False),
        ("(3, 0), 'ab'", False),
        ("[3, 0.0], 'ab'", False),
        ("[True], 'ab'", False),
        ("[4], 'ab'", False),  # above the largest number
        ("[0, 0, 0], 'ab'", False),  # longer than the longest list
        ("[nan], 'ab'", False),
        ("[], ''", False),
        ("[], 'a1'", False),  # no test has a digit
        ("[], '\u00e4b'", False),
        ("[], '\\ud800a'", False),
    ],
)
def test_arguments_are_like_those_of_the_tests(text, is_like_tests):
    assert is_within(read_input(text, CALLS), input_bounds(CALLS)) == is_like_tests


@pytest.mark.parametrize(
    ("text", "is_like_tests"),
    [
        ("2\n3 9\n0 0\n", True),
        ("1\n 3 9", False),  # a leading space
        ("1\n3  9", False),
        ("1\n3\t9", False),
        ("3\n3 9", False),  # no test has more than 2 in its first line
        ("1 1\n3 9", False),
        ("1\n3 9 1", False),
        ("1\n3 ten", False),
        ("1\n3 09", False),
        ("1\n3 9.0", False),
        ("1\n3 10", False),
        ("1\n\n3 9", False),
        ("1", False),
        ("", False),
        ("1\n3 " + "9" * 1990, False),
    ],
)
def test_stdin_is_like_that_of_the_tests(text, is_like_tests):
    assert is_within(read_input(text, LINES), input_bounds(LINES)) == is_like_tests


def with_input(program: str, proposed: str) -> str:
    return f"```python\n{program}\n```\n```input\n{proposed}\n```"


def found(grade) -> tuple:
    """Return the parts of a grade that concern the proposed input and its certificate."""
    columns = ("proposal", "certificate_source", "failing_input", "expected_output", "program_output")
    return grade.correct, grade.certified, *(grade.detail[name] for name in columns)


PROBLEM = {
    "problem_id": "0",
    "problem": "Return the sum of the numbers of xs that are above 4.",
    "reference": "def f(xs):\n    return sum(x for x in xs if x > 4)",
    "difficulty": 2,
    "visible_tests": "",
}
HIDDEN = "def f(xs):\n    return sum(x for x in xs if x > 4) + (xs == [7, 7, 3])"  # no test has this list
STRICT = (
    "def f(xs):\n    assert len(xs) < 9 and all(type(x) is int for x in xs)\n    return sum(x for x in xs if x > 4)"
)
NONE = (None, None, None)


@pytest.fixture(scope="module")
def functions():
    return load_task("functions", sandbox="none", prover_inputs=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HIDDEN, (True, True, None, None, *NONE)),  # nobody knows
        (with_input(HIDDEN, "[7, 7, 3]"), (False, True, "certifying", "prover", "[[7, 7, 3]]", "14", "15")),
        (with_input(HIDDEN, "[7, 3, 7]"), (True, True, "unproved", None, *NONE)),
        (with_input(PROBLEM["reference"], "[7, 7, 3]"), (True, True, "unproved", None, *NONE)),
        # A program that is right on every valid input differs from the reference on these.
        (with_input(STRICT, "[5.5]"), (True, True, "invalid", None, *NONE)),
        (with_input(STRICT, "[1] * 9"), (True, True, "malformed", None, *NONE)),
        (with_input(STRICT, "[1, 1, 1, 1, 1, 1, 1, 1, 1]"), (True, True, "invalid", None, *NONE)),
        (with_input(STRICT, "[1], [2]"), (True, True, "invalid", None, *NONE)),
        (with_input(STRICT, ""), (True, True, "invalid", None, *NONE)),
    ],
    ids=["none", "certifying", "wrong claim", "right", "float", "no literal", "too long", "two arguments", "empty"],
)
def test_only_a_valid_input_certifies(functions, text, expected):
    grade = functions.grade(PROBLEM, text)
    assert found(grade) == expected
    # The tests decide the rates, and the same text has the same grade in a run that resumes.
    assert grade.test_pass_rate == grade.detail["hidden_pass_rate"] == 1.0
    again = load_task("functions", sandbox="none", prover_inputs=True)
    assert again.grade(PROBLEM, text) == grade


def test_an_input_that_times_out_or_varies_proves_nothing(functions):
    for wrong in ("sum(iter(int, 1))", "int.from_bytes(__import__('os').urandom(8), 'big')"):
        program = f"def f(xs):\n    return {wrong} if xs == [7, 7, 3] else sum(x for x in xs if x > 4)"
        grade = functions.grade(PROBLEM, with_input(program, "[7, 7, 3]"))
        assert found(grade) == (True, True, "unproved", None, *NONE)


def test_the_tests_certificate_comes_first(functions):
    grade = functions.grade(PROBLEM, with_input("def f(xs):\n    return 1 // 0", "[7, 7, 3]"))
    assert found(grade)[:4] == (False, True, "certifying", "tests")
    assert grade.detail["failing_input"] != "[[7, 7, 3]]"
    # Alone, the tests cannot prove that a program is wrong which only times out on them.
    slow = (
        "def f(xs):\n    while not xs:\n        pass\n    return 0 if xs == [7, 7, 3] else sum(x for x in xs if x > 4)"
    )
    assert found(functions.grade(PROBLEM, slow))[:4] == (False, False, None, None)
    assert found(functions.grade(PROBLEM, with_input(slow, "[7, 7, 3]")))[:4] == (False, True, "certifying", "prover")


def test_a_text_without_a_program_has_no_grade_of_its_input(functions):
    grade = functions.grade(PROBLEM, "I do not know.\n```input\n[1]\n```")
    assert (grade.answer, grade.correct, grade.detail) == (None, False, dict.fromkeys(functions.detail_columns))
    # A program after the input is no part of the solution.
    assert functions.grade(PROBLEM, f"Here:\n```input\n[1]\n```\n{PROBLEM['reference']}").answer is None


def test_the_pool_holds_the_solution_without_the_input(functions):
    sample = Sample(with_input(HIDDEN, "[7, 7, 3]"), 40, is_truncated=False)
    place = {"part": "test", "role": Role.SNEAKY, "round_index": 0, "prover": "p"}
    ((row,),) = make_rows(functions, [PROBLEM], [[sample]], **place)
    assert row["solution"] == f"```python\n{HIDDEN}\n```"
    assert (row["correct"], row["label"], row["outcome"]) == (False, 0, "PROOF_INVALID")
    assert (row["proposed_input"], row["certificate_source"]) == ("[7, 7, 3]\n", "prover")
    assert list(row) == list(solution_features(functions))


def test_without_the_option_nothing_changes():
    task = load_task("functions", sandbox="none")
    text = with_input(HIDDEN, "[7, 7, 3]")
    assert task.solution_in(text) == text
    assert task.detail_columns == PROGRAM_COLUMNS
    grade = task.grade(PROBLEM, text)
    assert (grade.correct, set(grade.detail)) == (True, set(PROGRAM_COLUMNS))
    assert "input" not in PromptBuilder(task).text(PROBLEM, Role.SNEAKY)


@pytest.mark.parametrize("name", ["functions", "mbpp", "apps"])
def test_only_the_sneaky_prompt_asks_for_an_input(name):
    plain, asking = (PromptBuilder(load_task(name, prover_inputs=on)) for on in (False, True))
    for role in Role:
        first, second = plain.text(PROBLEM, role), asking.text(PROBLEM, role)
        assert (first == second) == (role is not Role.SNEAKY)
        assert ("```input" in second) == (role is Role.SNEAKY)


@pytest.fixture
def prepared_in(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.parametrize(
    ("program", "proposed", "expected"),
    [
        ("sum(xs) if xs == [9, 8] else {}", "[9, 8]", (True, True, "unproved", None, *NONE)),
        ("0 if xs == [9, 8] else {}", "[9, 8]", (False, True, "certifying", "prover", "[[9, 8]]", "17", "0")),
        ("0 if xs == [9, 8] else {}", "add([9, 8])", (False, True, "certifying", "prover", "[[9, 8]]", "17", "0")),
        # The reference accepts tuples, floats and numbers of any size.
        ("0 if type(xs) is tuple else {}", "(9, 8)", (True, True, "invalid", None, *NONE)),
        ("0 if 9.5 in xs else {}", "[9.5]", (True, True, "invalid", None, *NONE)),
        ("0 if 99 in xs else {}", "[99]", (True, True, "invalid", None, *NONE)),
        ("0 if xs == [9, 8] else {}", "[9, 8", (True, True, "malformed", None, *NONE)),
        ("0 if xs == [9, 8] else {}", "[9, 8], " * 300, (True, True, "malformed", None, *NONE)),
    ],
)
def test_inputs_of_calls_of_a_dataset(prepared_in, tmp_path, program, proposed, expected):
    folder = write_jsonl(tmp_path / "rows" / "test.jsonl", [sum_row(4)])
    task = load_task("mbpp", path=folder, sandbox="none", prover_inputs=True)
    problem = task.problems("train")[0]
    text = with_input(f"def add(xs):\n    return {program.format('sum(x for x in xs if x > 4)')}", proposed)
    grade = task.grade(problem, text)
    assert found(grade) == expected
    assert grade.test_pass_rate == grade.detail["hidden_pass_rate"] == 1.0
    assert outcome_of(grade, False) == ("VERIFIED" if expected[0] else "PROOF_INVALID")


STDIN = {
    "problem_id": 0,
    "question": "Add the numbers of the second line, whose number the first line has.",
    "solutions": json.dumps(["n = int(input())\nprint(sum(map(int, input().split())))"]),
    "input_output": json.dumps(
        {
            "inputs": ["2\n1 2\n", "4\n9 0 0 -3\n", "1\n5\n"],
            "outputs": ["3\n", "6\n", "5\n"],
        }
    ),
    "difficulty": "interview",
    "url": "",
    "starter_code": "",
}
COUNTED = "n = int(input())\nprint(sum(list(map(int, input().split()))[:n]))"
CAPPED = "n = int(input())\nprint(min(9, sum(map(int, input().split()))))"
OTHER = "n = int(input())\nprint(sum(int(next(words)) for words in [iter(input().split())] for _ in range(n)))"


@pytest.mark.parametrize(
    ("program", "proposed", "references", "expected"),
    [
        (COUNTED, "2\n9 9", [], (True, True, "unproved", None, *NONE)),
        (CAPPED, "2\n9 9", [], (False, True, "certifying", "prover", "2\n9 9\n", "18\n", "9\n")),
        (CAPPED, "2\n10 9", [], (True, True, "invalid", None, *NONE)),  # above the tests' numbers
        (CAPPED, "two\n9 9", [], (True, True, "invalid", None, *NONE)),
        (CAPPED, "2", [], (True, True, "invalid", None, *NONE)),
        (CAPPED, "", [], (True, True, "invalid", None, *NONE)),
        (CAPPED, "2\n9 9" + "\n9 9" * 600, [], (True, True, "malformed", None, *NONE)),
        # More numbers than the first line says: the references disagree, or one of them crashes.
        (CAPPED, "1\n9 9", [COUNTED], (True, True, "invalid", None, *NONE)),
        (CAPPED, "3\n9 9", [OTHER], (True, True, "invalid", None, *NONE)),
    ],
)
def test_inputs_on_stdin_of_a_dataset(prepared_in, tmp_path, program, proposed, references, expected):
    solutions = [*json.loads(STDIN["solutions"]), *references]
    folder = write_jsonl(tmp_path / "rows" / "train.jsonl", [{**STDIN, "solutions": json.dumps(solutions)}])
    task = load_task("apps", path=folder, sandbox="none", prover_inputs=True)
    problem = task.problems("train")[0]
    assert len(task.program_tests(problem).references) == len(solutions)
    grade = task.grade(problem, with_input(program, proposed))
    assert found(grade) == expected
    assert grade.test_pass_rate == grade.detail["hidden_pass_rate"] == 1.0
