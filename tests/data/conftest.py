from typing import ClassVar

import pytest
from datasets import Dataset, Value

from pvg_hf.core.roles import Role
from pvg_hf.tasks.base import Grade, Task
from tests.support.game_fixtures import game

__all__ = ["game"]


class SumTask(Task):
    """Adds two numbers; a solution is its answer, `?` stands for no answer, and a `!` removes the certificate."""

    name = "sum"
    columns: ClassVar = {"level": Value("int32")}
    detail_columns: ClassVar = {"length": Value("int32")}
    prompts: ClassVar = dict.fromkeys(Role, "{{ problem }}")

    def problems(self, split):
        numbers = range(6) if split == "train" else range(6, 8)
        return Dataset.from_list(
            [
                {"problem_id": f"sum-{n}", "problem": f"{n} + 1 =", "reference": str(n + 1), "level": n % 2}
                for n in numbers
            ]
        )

    def grade(self, problem, solution):
        answer = None if "?" in solution else solution.strip(" !")
        return Grade(
            answer=answer,
            correct=answer == problem["reference"],
            certified="!" not in solution,
            detail={"length": len(solution)},
        )


@pytest.fixture
def task():
    return SumTask()


@pytest.fixture
def split(task):
    """Problems 0 to 2 are the verifier's (2 held out), 3 to 5 the prover's."""
    train = task.problems("train")
    return {
        "verifier": train.select([0, 1]),
        "verifier_heldout": train.select([2]),
        "prover": train.select([3, 4]),
        "prover_heldout": train.select([5]),
        "test": task.problems("test"),
    }
