"""Translations: problems, grades by the solver's answer, and correctness by construction."""

import json

import pytest

from experiments.translations import TranslationTask, keep_answer
from pvg_hf.tasks import PromptBuilder, load_task

OPTIONS = {"num_train": 6, "num_test": 3}
INNER = load_task("arithmetic", **OPTIONS)


@pytest.fixture
def task(tmp_path):
    """
    The solver is right on the first problem, wrong on the second, and without an answer on the third of each split.
    """
    lines = []
    for split in ("train", "test"):
        for index, problem in enumerate(INNER.problems(split).to_list()):
            solution = (problem["reference"], "too many\n#### 99999", "no answer")[index % 3]
            lines.append(json.dumps({"problem_id": problem["problem_id"], "solution": solution}))
    path = tmp_path / "solved.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return TranslationTask(task="arithmetic", solutions=str(path), **OPTIONS)


def test_problems_without_an_answer_are_left_out(task):
    assert (len(task.problems("train")), len(task.problems("test"))) == (4, 2)


def test_a_translation_is_right_if_it_has_the_solvers_answer(task):
    problem = task.problems("test")[1]
    assert not INNER.grade(INNER.problems("test")[1], "so many\n#### 99999").correct
    assert task.grade(problem, "so many\n#### 99999").correct
    assert not task.grade(problem, INNER.problems("test")[1]["reference"]).correct
    assert not task.grade(problem, "no answer").correct


def test_every_role_reads_the_solvers_solution(task):
    problem = task.problems("test")[1]
    for role in ("base", "helpful", "sneaky"):
        text = PromptBuilder(task).text(problem, role)
        assert f"{problem['problem']}\ntoo many\n#### 99999\n" in text


def test_solutions_are_as_correct_as_the_solvers_whatever_the_translator_writes(task):
    true_problems = {problem["problem_id"]: problem for problem in INNER.problems("train").to_list()}
    problems = task.problems("train").to_list()
    texts = [
        "",
        "no answer",
        "####",
        "#### 99999",
        "#### 99999.0 pens",
        "a\n#### 1\n#### 2",
        "#### -3",
        "\u202e#### 9",
    ]
    texts += [problem["reference"] for problem in (*true_problems.values(), *problems)]
    for problem in problems:
        true_problem, solver = true_problems[problem["problem_id"]], problem["reference"]
        for text in texts:
            chosen = keep_answer(task, problem, text)
            assert chosen in (text, solver)
            assert INNER.grade(true_problem, chosen).correct == INNER.grade(true_problem, solver).correct


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "line 1 must have .*`problem_id` and `solution`"),
        ('{"problem_id": "a", "solution": 3}', "line 1 must have .*`problem_id` and `solution`"),
        ('{"problem_id": "a", "solution": "b"}\n' * 2, "line 2 has a second solution.*`a`"),
        (None, "no file of a solver's solutions"),
    ],
    ids=["no columns", "number", "twice", "missing"],
)
def test_mistakes_in_the_file_are_named(tmp_path, text, message):
    path = tmp_path / "solved.jsonl"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        TranslationTask(task="arithmetic", solutions=str(path))


def test_a_task_graded_by_tests_is_refused(tmp_path):
    functions = load_task("functions", num_train=2, num_test=2)
    problem = functions.problems("train")[0]
    path = tmp_path / "solved.jsonl"
    path.write_text(json.dumps({"problem_id": problem["problem_id"], "solution": problem["reference"]}))
    task = TranslationTask(task="functions", num_train=2, num_test=2, solutions=str(path))
    with pytest.raises(ValueError, match="needs one that compares answers"):
        task.grade(task.with_solution(problem), problem["reference"])
