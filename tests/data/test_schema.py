import pyarrow as pa
import pytest
from datasets import Value

from pvg_hf.core.roles import Role
from pvg_hf.data.schema import (
    FAILED_OUTCOMES,
    SOLUTION_COLUMNS,
    Outcome,
    environment_name,
    make_solution,
    solution_features,
)
from pvg_hf.tasks.base import Grade, final_grade, outcome_of


@pytest.mark.parametrize(
    ("answer", "correct", "certified", "is_truncated", "expected", "is_failed"),
    [
        ("4", True, None, False, "VERIFIED", False),
        ("4", True, True, False, "VERIFIED", False),
        ("5", False, None, False, "PROOF_INVALID", False),
        ("5", False, True, False, "PROOF_INVALID", False),
        ("4", True, None, True, "TRUNCATED", True),  # it had stated an answer, maybe the beginning of another one
        ("5", False, None, True, "TRUNCATED", True),
        (None, False, None, True, "TRUNCATED", True),
        (None, False, None, False, "NO_ANSWER", True),
        (None, False, False, False, "NO_ANSWER", True),
        ("4", True, False, False, "UNCERTIFIED", True),
        ("5", False, False, False, "UNCERTIFIED", True),
        ("5", False, False, True, "TRUNCATED", True),
    ],
)
def test_outcome_of_each_kind_of_solution(answer, correct, certified, is_truncated, expected, is_failed):
    outcome = outcome_of(Grade(answer=answer, correct=correct, certified=certified), is_truncated)
    assert outcome == expected
    assert (outcome in FAILED_OUTCOMES) == is_failed


def test_outcome_codes_are_stable():
    assert [str(outcome) for outcome in Outcome] == [
        "VERIFIED",
        "PROOF_INVALID",
        "NO_ANSWER",
        "TRUNCATED",
        "UNCERTIFIED",
        "VERIFIER_TIMEOUT",
        "VERIFIER_SPURIOUS_FAIL",
        "VERIFIER_SPURIOUS_PASS",
        "VERIFIER_INTERNAL_ERROR",
        "BUDGET_EXHAUSTED",
        "UNDECIDED",
    ]


def test_a_solution_has_the_features_columns_and_types(task, split):
    problem = split["verifier"][1]
    row = make_solution(
        task=task,
        problem=problem,
        part="verifier",
        role=Role.SNEAKY,
        round_index=2,
        prover="a-prover",
        solution="7",
        grade=task.grade(problem, "7"),
        label=None,
        sample_index=3,
        num_tokens=1,
        is_truncated=False,
        score=0.25,
    )
    features = solution_features(task)
    assert list(features) == [*SOLUTION_COLUMNS, "level", "length"] == list(row)
    assert features["label"] == Value("int8")
    assert pa.Table.from_pylist([row], schema=features.arrow_schema).to_pylist() == [row]
    assert row == {
        "problem_id": "sum-1",
        "problem": "1 + 1 =",
        "reference": "2",
        "part": "verifier",
        "role": "sneaky",
        "round_index": 2,
        "prover": "a-prover",
        "solution": "7",
        "answer": "7",
        "correct": False,
        "label": None,
        "outcome": "PROOF_INVALID",
        "feedback": "PROOF_INVALID",
        "is_noise_flagged": False,
        "score": 0.25,
        "sample_index": 3,
        "num_tokens": 1,
        "is_truncated": False,
        "level": 1,
        "length": 1,
    }


@pytest.mark.parametrize("text", ["1", "2"])
def test_a_cut_solution_has_no_answer_and_is_not_correct(task, split, text):
    """The reference is 2; `1` may be the beginning of `18`, and `2` that of `25`."""
    problem = split["verifier"][1]
    grade = task.grade(problem, text)
    assert grade.correct == (text == "2")
    row = make_solution(
        task=task,
        problem=problem,
        part="verifier",
        role="base",
        round_index=-1,
        prover="p",
        solution=text,
        grade=grade,
        label=0,
        sample_index=0,
        num_tokens=1,
        is_truncated=True,
    )
    assert (row["solution"], row["answer"], row["correct"], row["outcome"]) == (text, None, False, "TRUNCATED")
    assert row["length"] == 1  # what the task found in the text stays
    assert final_grade(grade, is_truncated=False) is grade


@pytest.mark.parametrize(("name", "value"), [("label", 2), ("role", "judge")])
def test_refuses_unknown_labels_and_roles(task, split, name, value):
    problem = split["verifier"][0]
    arguments = {
        "task": task,
        "problem": problem,
        "part": "verifier",
        "role": "base",
        "round_index": -1,
        "prover": "p",
        "solution": "1",
        "grade": task.grade(problem, "1"),
        "label": 1,
        "sample_index": 0,
        "num_tokens": None,
        "is_truncated": False,
    }
    assert make_solution(**arguments)["label"] == 1
    with pytest.raises(ValueError, match=str(value)):
        make_solution(**{**arguments, name: value})


@pytest.mark.parametrize("columns", [{"label": Value("string")}, {"length": Value("int32")}])
def test_refuses_a_task_whose_columns_collide(task, columns):
    task.columns = columns  # `length` is one of its detail columns
    with pytest.raises(ValueError, match=rf"`sum` .* {list(columns)}".replace("[", r"\[")):
        solution_features(task)


def test_environments_are_named():
    assert environment_name(-1, "base") == environment_name(-1, "helpful") == "base"
    assert environment_name(3, Role.SNEAKY) == "round-003-sneaky"
