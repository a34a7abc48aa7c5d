"""Chooses among a user's solutions to each problem: by the verifier, by a vote, and by both."""

from itertools import combinations
from typing import Any

import pandas as pd

from pvg_hf.core.score_calibration import ScoreCalibration
from pvg_hf.core.scored_texts import check_scores
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import rate_by_problem, rate_difference, share_by_problem
from pvg_hf.evaluation.selective import Calibration, choose_answer
from pvg_hf.tasks.answers import answers_equal, extract_answer

BY_VERIFIER, BY_VOTE, BY_BOTH = "best", "vote", "weighted-vote"
RANDOM, ANY = "random solution", "any solution"
NAMES = {BY_VERIFIER: "verifier", BY_VOTE: "vote", BY_BOTH: "both"}


def choose_answers(
    rows: pd.DataFrame, calibration: ScoreCalibration | None, *, with_votes: bool = True
) -> list[dict[str, Any]]:
    """
    Choose a solution to each problem by each rule that can be applied.

    Ties are broken by a hash of the texts, so that a choice does not depend on the order of the rows.

    Args:
        rows: `problem_id`, `problem`, `solution`, `score` and, if known, `correct`.
        calibration: Gives probabilities, and the weights of the weighted vote; without it both are left out.
    Returns: for each problem the `problem`, and for each rule (`verifier`, `vote`, `both`) the index of the chosen
        solution, its text, its answer and, if this is known, whether it is `correct` and P(correct) over all that are
        tied with it (`share_right`); `probability` of the verifier's choice.
    Raises `ValueError` for a score that is not finite.
    """
    check_scores(rows["score"], rows["solution"])
    rules = [BY_VERIFIER]
    if with_votes:
        rules += [BY_VOTE] if calibration is None else [BY_VOTE, BY_BOTH]
    weigh = None
    if calibration is not None:
        line = calibration.probability
        weigh = Calibration(line["slope"], line["intercept"], calibration.num_problems)
    chosen = []
    for problem_id, group in rows.groupby("problem_id", sort=False):
        order = sorted(range(len(group)), key=lambda place: derive_seed("tie", group["solution"].iloc[place]))
        shuffled = group.iloc[order]
        solutions, scores = shuffled["solution"].tolist(), shuffled["score"].tolist()
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
            picked = {"index": order[choice.index], "score": scores[choice.index], "solution": solutions[choice.index]}
            if with_votes:
                answer = answers[choice.index]
                picked |= {"answer": answer, "votes": sum(answers_equal(answer, other) for other in answers)}
            if "correct" in group:
                correct = shuffled["correct"].astype(bool).tolist()
                picked |= {"correct": correct[choice.index], "share_right": choice.share_right(correct)}
            found[NAMES[rule]] = picked
        if calibration is not None:
            found["probability"] = calibration.probability_of(max(scores))
        chosen.append(found)
    return chosen


def compare_rules(rows: pd.DataFrame, chosen: list[dict[str, Any]]) -> dict[str, Any]:
    """
    Count how often the rules choose differently and, if it is known, how often each is right.

    Returns: `num_solutions`, `num_problems`; `differ`, the number of problems by pair of rules; and, with a column
        `correct`, by rule `right` and `gain` over a random solution, as figures with their 95 % intervals. Of tied
        choices, the share that is correct counts. A random solution to a problem is right with the share of correct
        ones; `any solution` is the share of problems with a correct one, which no rule can exceed.
    """
    names = [name for name in NAMES.values() if any(name in found for found in chosen)]
    differ = {
        f"{one} and {other}": sum(_differ(found[one], found[other]) for found in chosen)
        for one, other in combinations(names, 2)
    }
    figures: dict[str, Any] = {"num_solutions": len(rows), "num_problems": len(chosen), "differ": differ}
    if "correct" not in rows:
        return figures
    ids = [found["problem_id"] for found in chosen]
    of_problem = rows.groupby("problem_id", sort=False)["correct"]
    random, reachable = (values.loc[ids].to_numpy(float) for values in (of_problem.mean(), of_problem.any()))
    right = {name: [found[name]["share_right"] if found[name] else 0.0 for found in chosen] for name in names}
    figures["right"] = {
        RANDOM: share_by_problem(random, ids),
        **{name: share_by_problem(values, ids) for name, values in right.items()},
        ANY: rate_by_problem(reachable, ids),
    }
    figures["gain"] = {name: rate_difference(values, ids, random, ids) for name, values in right.items()}
    return figures


def describe_rules(figures: dict[str, Any]) -> str:
    """Describe the figures of [`compare_rules`], a line each."""
    num_problems = figures["num_problems"]
    lines = [f"{figures['num_solutions']} solutions to {num_problems} problems"]
    lines += [f"{pair} differ in {number} of {num_problems} problems" for pair, number in figures["differ"].items()]
    for name, right in figures.get("right", {}).items():
        gain = f", against a random one {figures['gain'][name]:+.3f}" if name in figures["gain"] else ""
        lines.append(f"right: {name:<15} {right:.3f}{gain}")
    return "\n".join(lines)


def _differ(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """
    Whether two rules choose different answers, or one chooses none. Rules are compared only where there is a vote.
    """
    if one is None or other is None:
        return one is not other
    return not answers_equal(one["answer"], other["answer"])
