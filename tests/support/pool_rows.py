"""Rows of a pool, with the columns that pairs are built from."""

from typing import Any

from pvg_hf.data.schema import SOLUTION_COLUMNS


def solution(
    problem: str,
    text: str,
    label: int | None,
    *,
    round_index: int = -1,
    role: str = "base",
    correct: bool | None = None,
    sample: int = 0,
    **columns: Any,
) -> dict[str, Any]:
    """Make a row; its label is correct unless `correct` says otherwise."""
    correct = label == 1 if correct is None else correct
    return {
        **dict.fromkeys(SOLUTION_COLUMNS),
        "problem_id": problem,
        "problem": f"Problem {problem}?",
        "reference": f"Reference of {problem}.",
        "part": "verifier",
        "role": role,
        "round_index": round_index,
        "solution": text,
        "correct": correct,
        "label": label,
        "outcome": "VERIFIED" if correct else "PROOF_INVALID",
        "sample_index": sample,
        **columns,
    }
