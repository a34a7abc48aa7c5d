import json
import os

import pandas as pd
import pytest

from pvg_hf.experimental.bench.attack_sets import (
    ASSURANCE,
    CORRECT,
    FIT,
    GSM8K_DIGEST,
    STYLES,
    TEST,
    TRAINED_HEAD,
    add_problems,
    load_set,
    make_gsm8k_rows,
)
from pvg_hf.experimental.bench.baselines import Baseline
from pvg_hf.tasks import load_task
from pvg_hf.tasks.base import grade_solution
from tests.tasks.test_gsm8k_flaws import PROBLEM, REFERENCE


@pytest.fixture(scope="module")
def arithmetic():
    return load_set("arithmetic")


def test_the_packaged_set_is_graded_by_the_task(arithmetic):
    task = load_task("arithmetic", num_train=2000, num_test=300, max_difficulty=3)
    problems = {row["problem_id"]: row for row in task.problems("test")}
    for row in arithmetic.rows.to_dict("records"):
        problem = problems[row["problem_id"]]
        assert row["problem"] == problem["problem"]
        assert grade_solution(task, problem, row["solution"]).correct == (row["kind"] == CORRECT), row


def test_the_parts_have_different_problems_and_the_first_has_no_style(arithmetic):
    fit, test = arithmetic.part(FIT), arithmetic.part(TEST)
    assert not set(fit["problem_id"]) & set(test["problem_id"])
    assert set(test["kind"]) - set(fit["kind"]) == {"padded"}


def test_no_packaged_recipe_trains_on_its_problems(arithmetic, repository):
    from pvg_hf.config import load_recipe

    texts = set(arithmetic.rows["problem"])
    for name in ("quickstart", "arithmetic"):
        task = load_task("arithmetic", **load_recipe(repository / "recipes" / f"{name}.yaml").task.options)
        assert not texts & set(task.problems("train")["problem"])


def test_a_baseline_is_fitted_without_the_problem(arithmetic):
    fit = arithmetic.part(FIT)
    for name in ("length", "bag-of-words"):
        scores = Baseline(name, fit)(["anything"] * 3, ["#### 4", "Ana has 4\n#### 4", "#### 4"])
        assert scores[0] == scores[2] != scores[1]


def test_gsm8k_is_made_from_the_users_copy(tmp_path):
    row = json.dumps({"question": PROBLEM, "answer": REFERENCE})
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text(f"{row}\n" * 3)
    rows = make_gsm8k_rows(str(tmp_path), {FIT: 1, TEST: 2})
    assert rows.equals(make_gsm8k_rows(str(tmp_path), {FIT: 1, TEST: 2}))
    of_part = rows.groupby("part")["problem_id"].unique()
    assert [len(of_part[FIT]), len(of_part[TEST])] == [1, 2]
    assert {name.split("-")[1] for name in of_part[FIT]} == {"train"}
    assert set(rows[rows["kind"] == "confident"]["part"]) == {TEST}
    assert rows[rows["kind"] == "confident"]["solution"].str.contains(ASSURANCE).all()
    assert set(STYLES) & set(rows["kind"]) == {"confident"}


def test_solutions_get_the_problems_of_the_set():
    rows = pd.DataFrame({"part": TEST, "problem_id": ["a", "a", "b"], "problem": ["A?", "A?", "B?"]})
    solutions = pd.DataFrame({"kind": TRAINED_HEAD, "problem_id": ["b", "c"], "solution": ["1", "2"]})
    assert add_problems(solutions, rows).values.tolist() == [[TEST, TRAINED_HEAD, "b", "B?", "1"]]


@pytest.mark.skipif("PVG_GSM8K_DIR" not in os.environ, reason="set PVG_GSM8K_DIR to a folder with GSM8K")
def test_gsm8k_has_the_published_digest_and_graded_mistakes_of_a_trained_prover():
    made = load_set("gsm8k")
    assert made.digest == GSM8K_DIGEST
    trained = made.rows[made.rows["kind"] == TRAINED_HEAD]
    assert len(trained) > 200
    assert set(trained["part"]) == {TEST}
    task = load_task("gsm8k", path=os.environ["PVG_GSM8K_DIR"])
    problems = {row["problem_id"]: row for row in task.problems("test")}
    for row in trained.to_dict("records"):
        assert not grade_solution(task, problems[row["problem_id"]], row["solution"]).correct, row
