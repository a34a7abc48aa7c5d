"""Rewards of a generation batch, worked without tensors."""

import statistics

from tests.support.prover_training import GROUP_SIZE, grade_by_length, score_texts


def rewards_by_hand(rows, solutions, truncated) -> list[list[float]]:
    """SRC of each group of consecutive rows; a truncated solution has no answer, whatever its text."""
    scores = score_texts([row["problem"] for row in rows], solutions)
    grades = [grade_by_length(row, solution) for row, solution in zip(rows, solutions, strict=True)]
    aligned = [grade.correct == (row["role"] == "helpful") for row, grade in zip(rows, grades, strict=True)]
    answered = [grade.answer is not None and not cut for grade, cut in zip(grades, truncated, strict=True)]
    return [
        _src_by_hand(*(values[start : start + GROUP_SIZE] for values in (scores, aligned, answered)))
        for start in range(0, len(rows), GROUP_SIZE)
    ]


def _src_by_hand(scores: list[float], aligned: list[bool], answered: list[bool]) -> list[float]:
    """K24 eq. 2 on one group, with the rule for unanswered solutions."""
    deviations = [score - statistics.fmean(scores) for score in scores]
    rewards = []
    for deviation, is_aligned, is_answered in zip(deviations, aligned, answered, strict=True):
        if not is_answered:
            rewards.append(min(-1.0, -abs(deviation)))
        elif deviation > 0:
            rewards.append(deviation if is_aligned else -deviation)
        else:
            rewards.append(-1.0)
    return rewards
