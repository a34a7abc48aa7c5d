"""Solutions to a set of problems, as graded rows of a pool."""

import pytest

from pvg_hf.data import load_pool, solution_features, write_pool
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import resolve_model
from pvg_hf.sampling import Sample, Sampler, sample_solutions
from pvg_hf.sampling.sampler import cut_at_stop
from pvg_hf.tasks import PromptBuilder, load_task


@pytest.fixture(scope="module")
def prover():
    return load_prover(resolve_model("arithmetic", "prover"))


@pytest.fixture(scope="module")
def task():
    return load_task("arithmetic", num_train=6, num_test=1, max_difficulty=3)


def _write(prover, task, problems, role="helpful", prompts_per_batch=32):
    sampler = Sampler(*prover, max_new_tokens=72, prompts_per_batch=prompts_per_batch)
    return sample_solutions(sampler, PromptBuilder(task), problems, role, num_samples=3, seed=5, prover="mine")


def test_rows_follow_the_problems_and_have_the_tasks_grades(prover, task, tmp_path):
    problems = task.problems("train").to_list()
    rows = _write(prover, task, problems)
    assert [row["problem_id"] for row in rows] == [problem["problem_id"] for problem in problems for _ in range(3)]
    assert [row["sample_index"] for row in rows] == [0, 1, 2] * len(problems)
    grades = [task.grade(row, row["solution"]).correct and not row["is_truncated"] for row in rows]
    assert [row["correct"] for row in rows] == grades
    assert [row["label"] for row in rows] == [int(grade) for grade in grades]
    assert {(row["role"], row["round_index"], row["prover"]) for row in rows} == {("helpful", -1, "mine")}
    assert write_pool(tmp_path / "pool.parquet", [rows], solution_features(task)) == len(rows)
    assert load_pool(tmp_path / "pool.parquet")["solution"][:] == [row["solution"] for row in rows]


def test_solution_depends_neither_on_its_batch_nor_on_the_other_problems(prover, task):
    problems = task.problems("train").to_list()
    assert _write(prover, task, problems[2:3]) == _write(prover, task, problems, prompts_per_batch=4)[6:9]


def test_unknown_role_is_an_error(prover, task):
    with pytest.raises(ValueError, match="teacher"):
        _write(prover, task, task.problems("train").to_list(), role="teacher")


@pytest.mark.parametrize(
    ("text", "stop_strings", "kept"),
    [
        ("has 3 pens. Ana has 5", (" Ana",), "has 3 pens."),
        ("has 3 pens. Ana has 5", (" Ana", "pens."), "has 3 "),  # the first in the text, not in the list
        ("has 3 Ana has 5 Ana", (" Ana",), "has 3"),
        ("Ana has 3", ("Ana",), ""),
        ("has 3 pens.", (" Ana",), None),
        ("has 3 pens. Ana has 5", (), None),
    ],
)
def test_solution_ends_before_its_first_stop_string(text, stop_strings, kept, tokenizer):
    sample = Sample(text, num_tokens=64, is_truncated=True)
    num_tokens = None if kept is None else len(tokenizer(kept)["input_ids"])
    expected = sample if kept is None else Sample(kept, num_tokens, is_truncated=False)
    assert cut_at_stop(sample, stop_strings, tokenizer) == expected
