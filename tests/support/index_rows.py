"""Rows of an index, read problem by problem."""

from collections.abc import Mapping
from typing import Any

from pvg_hf.app.index import Query, SolutionIndex

Row = Mapping[str, Any]


def problem_ids(index: SolutionIndex, round_index: int, *, is_test: bool = True) -> list[str]:
    """Ids of the problems that a round has solutions to, in ascending order."""
    return sorted({one.problem_id for one in index.find(Query(round_index, is_test))})


def solution_rows(index: SolutionIndex, round_index: int, problem_id: str, *, is_test: bool = True) -> list[Row]:
    """Full rows of a problem's solutions in a round, the most convincing of each role first."""
    found = index.find(Query(round_index, is_test, problem_id=problem_id))
    return index.read([one.place for one in sorted(found, key=lambda one: one.role)])
