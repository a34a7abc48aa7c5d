"""The arithmetic task: its problems, options, grades and prompts."""

import pytest

from pvg_hf.core.roles import Role
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask, find_flaws

PROBLEM = (
    "Ana has 7 pens.\nDev has 4 pens.\nBen has 3 more than Ana.\nCleo has twice as many as Ben.\nHow many pens does"
    " Cleo have?"
)
SOLUTION = "Ana has 7\nBen has 3 more than Ana: 7 + 3 = 10\nCleo has twice as many as Ben: 10 * 2 = 20\n#### 20"


def test_task_is_seeded_and_its_splits_are_disjoint():
    task = ArithmeticTask(num_train=300, num_test=50, seed=3)
    train, test = task.problems("train"), task.problems("test")
    assert train.to_list() == ArithmeticTask(num_train=300, num_test=50, seed=3).problems("train").to_list()
    assert not set(train["problem"]) & set(test["problem"])
    assert not set(train["problem_id"]) & set(test["problem_id"])
    assert len(set(train["problem"])) == 300
    assert set(train["difficulty"]) == {2, 3, 4}


def test_problems_of_other_settings_have_other_ids():
    settings = ({}, {"max_difficulty": 6}, {"distractor_rate": 0.0}, {"seed": 1})
    names = {
        (row["problem_id"], row["problem"])
        for options in settings
        for row in ArithmeticTask(num_train=20, num_test=5, **options).problems("train").to_list()
    }
    assert len({problem_id for problem_id, _ in names}) == len(names) >= 70


def test_more_training_problems_leave_the_others_alone():
    few, many = ArithmeticTask(num_train=50, num_test=20), ArithmeticTask(num_train=80, num_test=20)
    assert few.problems("test").to_list() == many.problems("test").to_list()
    assert few.problems("train").to_list() == many.problems("train").to_list()[:50]


def test_a_grade_has_the_first_flaw_and_what_is_left_implicit():
    task = ArithmeticTask()
    problem = {"problem": PROBLEM, "reference": SOLUTION}
    right, wrong = task.grade(problem, SOLUTION), task.grade(problem, SOLUTION.replace("#### 20", "#### 21"))
    assert right.correct
    assert right.answer == "20"
    assert right.detail["first_flaw_step"] is None
    assert right.detail["implicit_share"] == 0
    assert not wrong.correct
    assert wrong.detail["first_flaw_step"] == 3
    assert wrong.detail["first_flaw_kind"] == "contradicted_conclusion"
    short = task.grade(problem, "Ben has 10\nCleo has 20\n#### 20")
    assert short.correct
    assert short.detail["implicit_share"] == pytest.approx(4 / 6)  # two comparisons and two calculations of six facts
    silent = task.grade(problem, "Ana has 7")
    assert silent.answer is None
    assert not silent.correct
    assert silent.detail["lenient_answer"] == "7"


def test_a_problem_of_another_task_is_refused():
    with pytest.raises(ValueError, match="How many THINGS does NAME have"):
        find_flaws("What is love?", "")


@pytest.mark.parametrize(
    "options",
    [
        {"min_difficulty": 1},
        {"max_difficulty": 7},
        {"min_difficulty": 4, "max_difficulty": 3},
        {"num_train": 0},
        {"distractor_rate": 50},
    ],
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}`.* must"):
        ArithmeticTask(**options)


def test_an_unknown_answer_format_or_split_is_refused_at_once():
    with pytest.raises(ValueError, match="Unknown `answer_format` 'loose'; allowed: `strict`, `lenient`"):
        ArithmeticTask(answer_format="loose")
    with pytest.raises(ValueError, match=r"split 'validation'.* `train`, `test`"):
        ArithmeticTask().problems("validation")


def test_the_base_prompt_shows_examples_only_where_they_are_asked_for():
    problem = {"problem_id": "p", "problem": PROBLEM, "reference": SOLUTION, "difficulty": 2}
    bare = f"{PROBLEM}\nsolution:\n"
    assert PromptBuilder(ArithmeticTask()).text(problem, Role.BASE) == bare
    example = ArithmeticTask.few_shot_examples[0]
    shown = PromptBuilder(ArithmeticTask(), few_shot=1).text(problem, Role.BASE)
    assert shown == f"{example['problem']}\nsolution:\n{example['solution']}\nnext problem:\n{bare}"
    three = PromptBuilder(ArithmeticTask(), few_shot=3)
    assert three.text(problem, Role.BASE).count("next problem:") == 3
    assert three.text(problem, Role.HELPFUL).endswith(f"next problem:\n{PROBLEM}\nhelpful solution:\n")


def test_stop_strings_end_a_base_provers_solution():
    """The examples' own text, read as one solution that runs on."""
    problem = {"problem_id": "p", "problem": PROBLEM, "reference": SOLUTION, "difficulty": 2}
    shown = PromptBuilder(ArithmeticTask(), few_shot=3).text(problem, Role.BASE)
    (stop,) = ArithmeticTask.stop_strings
    first = ArithmeticTask.few_shot_examples[0]["solution"]
    assert shown.partition("solution:\n")[2].partition(stop)[0] == first


@pytest.mark.parametrize("seed", range(3))
def test_every_problem_is_recognised_as_the_tasks(seed):
    task = ArithmeticTask(num_train=150, num_test=50, seed=seed, max_difficulty=6)
    for split in ("train", "test"):
        texts = task.problems(split)["problem"]
        assert [task.problem_mistake(text) for text in texts] == [None] * len(texts)
