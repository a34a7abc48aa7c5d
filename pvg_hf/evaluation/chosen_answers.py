"""Chooses among a user's solutions to each problem: by the verifier, by a vote, and by both."""

from typing import Any

import pandas as pd

from pvg_hf.core.score_calibration import ScoreCalibration
from pvg_hf.evaluation.intervals import rate_by_problem, rate_difference
from pvg_hf.evaluation.selective import Calibration, choose_answer
from pvg_hf.tasks.answers import extract_answer

BY_VERIFIER, BY_VOTE, BY_BOTH = "best", "vote", "weighted-vote"
NAMES = {BY_VERIFIER: "verifier", BY_VOTE: "vote", BY_BOTH: "both"}


def choose_answers(
    rows: pd.DataFrame, calibration: ScoreCalibration | None, *, with_votes: bool = True
) -> list[dict[str, Any]]:
    """
    Choose a solution to each problem by each rule that can be applied.

    Args:
        rows: `problem_id`, `problem`, `solution`, `score` and, if known, `correct`.
        calibration: Gives probabilities, and the weights of the weighted vote; without it both are left out.
    Returns: for each problem the `problem`, and for each rule (`verifier`, `vote`, `both`) the index of the chosen solution, its
        text, its answer, and whether it is correct if this is known; `probability` of the verifier's choice.
    """
    rules = [BY_VERIFIER]
    if with_votes:
        rules += [BY_VOTE] if calibration is None else [BY_VOTE, BY_BOTH]
    weigh = None
    if calibration is not None:
        line = calibration.probability
        weigh = Calibration(line["slope"], line["intercept"], calibration.num_problems)
    chosen = []
    for problem_id, group in rows.groupby("problem_id", sort=False):
        solutions, scores = group["solution"].tolist(), group["score"].tolist()
        answers: list[str | None] = (
            [extract_answer(text) for text in solutions] if with_votes else [""] * len(solutions)
        )
        found: dict[str, Any] = {
            "problem_id": problem_id,
            "problem": group["problem"].iloc[0],
            "num_solutions": len(solutions),
        }
        for rule in rules:
            # The verifier may choose a solution without an answer; a vote cannot.
            choice = choose_answer([""] * len(scores) if rule == BY_VERIFIER else answers, scores, rule, weigh=weigh)
            if choice is None:
                found[NAMES[rule]] = None
                continue
            picked = {"index": choice.index, "score": scores[choice.index], "solution": solutions[choice.index]}
            if with_votes:
                picked |= {"answer": answers[choice.index], "votes": answers.count(answers[choice.index])}
            if "correct" in group:
                picked["correct"] = bool(group["correct"].iloc[choice.index])
            found[NAMES[rule]] = picked
        if calibration is not None:
            found["probability"] = calibration.probability_of(max(scores))
        chosen.append(found)
    return chosen


def describe_choices(rows: pd.DataFrame, chosen: list[dict[str, Any]]) -> str:
    """Say how often the rules choose differently and, if it is known, how often each is right, with 95 % intervals."""
    names = [name for name in NAMES.values() if any(name in found for found in chosen)]
    ids = [found["problem_id"] for found in chosen]
    lines = [f"{len(rows)} solutions to {len(chosen)} problems"]
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            num = sum(_answer_of(found[one]) != _answer_of(found[other]) for found in chosen)
            lines.append(f"{one} and {other} differ in {num} of {len(chosen)} problems")
    if "correct" not in rows:
        return "\n".join(lines)
    first = rows.groupby("problem_id", sort=False)["correct"].first().loc[ids].to_numpy(float)
    lines.append(f"right: first solution  {rate_by_problem(first, ids):.3f}")
    for name in names:
        right = [float(found[name] is not None and found[name]["correct"]) for found in chosen]
        gain = rate_difference(right, ids, first, ids)
        lines.append(f"right: {name:<15} {rate_by_problem(right, ids):.3f}, against the first {gain:+.3f}")
    return "\n".join(lines)


def _answer_of(choice: dict[str, Any] | None) -> object:
    return None if choice is None else choice.get("answer", choice["index"])
