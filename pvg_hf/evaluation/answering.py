"""What a game is good for: of several helpful solutions the one that the verifier trusts most, or none."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from pvg_hf.evaluation.halves import first_half
from pvg_hf.evaluation.intervals import Figure, rate_by_problem, rate_difference
from pvg_hf.evaluation.roles import judged

THRESHOLDS = (0.5, 0.8, 0.9)


@dataclass(frozen=True)
class Calibration:
    """
    From the score of a chosen solution to the probability that it is correct, `sigmoid(slope * score + intercept)`.

    Args:
        slope (`float`):
            At least 0; 0 where the scores said nothing.
        intercept (`float`):
            Log-odds at a score of 0.
        num_problems (`int`):
            Chosen solutions that it was fitted on.
        num_samples (`int`, *optional*):
            Of how many solutions each was chosen. Of more, the chosen one scores higher and is no more often correct than
            its score says for fewer: the probability is then somewhat too high.
    """

    slope: float
    intercept: float
    num_problems: int
    num_samples: int | None = None

    def probability(self, score: float) -> float:
        """In (0, 1)."""
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, self.slope * score + self.intercept))))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose(rows: pd.DataFrame) -> pd.DataFrame:
    """
    Of each problem's solutions, the first, the one with the highest score, and one with the answer that most of them give.

    Args:
        rows (`pd.DataFrame`):
            Test solutions of one prover in the pool's columns.

    Returns:
        `pd.DataFrame`: per problem `problem_id`, `score` (of the highest; missing where every solution failed), and
        whether the choice is correct: `first`, `best`, `majority`. Failed solutions are not chosen. Ties go to the
        earlier solution.
    """
    rows = rows.sort_values(["problem_id", "sample_index"], kind="stable")
    able = judged(rows)
    best = able.sort_values("score", ascending=False, kind="stable").drop_duplicates("problem_id")
    votes = able.groupby(["problem_id", "answer"])["answer"].transform("size")
    popular = able.assign(votes=votes).sort_values("votes", ascending=False, kind="stable")
    chosen = {
        "first": rows.drop_duplicates("problem_id"),
        "best": best,
        "majority": popular.drop_duplicates("problem_id"),
    }
    table = pd.DataFrame({"problem_id": rows["problem_id"].unique()})
    for name, solutions in chosen.items():
        table[name] = table["problem_id"].map(solutions.set_index("problem_id")["correct"]).eq(True)
    return table.assign(score=table["problem_id"].map(best.set_index("problem_id")["score"]))


def fit_calibration(choices: pd.DataFrame, num_samples: int | None = None) -> Calibration:
    """
    Platt's scaling (Platt 1999): a logistic regression on the score, with targets `(N1 + 1) / (N1 + 2)` and
    `1 / (N0 + 2)` in place of 1 and 0, so that it is finite where correct and incorrect choices do not overlap.

    Args:
        choices (`pd.DataFrame`):
            As [`choose`] returns them; problems without a choice are left out.
        num_samples (`int`, *optional*):
            Solutions of a problem, to be noted.

    Raises:
        ValueError: if no problem has a choice.
    """
    choices = choices[choices["score"].notna()]
    if not len(choices):
        raise ValueError("There is no solution with an answer and a score to calibrate by.")
    scores, correct = choices["score"].to_numpy(float), choices["best"].to_numpy(bool)
    num_correct = correct.sum()
    targets = np.where(correct, (num_correct + 1) / (num_correct + 2), 1 / (len(correct) - num_correct + 2))
    # A row with the target p is one of either class, weighted with p and 1 - p.
    centre, scale = scores.mean(), scores.std() or 1.0
    features = np.tile((scores - centre) / scale, 2)[:, None]
    classes = np.repeat([1, 0], len(scores))
    fitted = LogisticRegression(C=np.inf).fit(features, classes, np.concatenate([targets, 1 - targets]))
    slope = float(fitted.coef_[0, 0] / scale)
    intercept = float(fitted.intercept_[0] - slope * centre)
    if slope < 0:  # the scores mislead: what remains is how often a choice is correct
        slope, intercept = 0.0, float(np.log(targets.mean() / (1 - targets.mean())))
    return Calibration(slope, intercept, len(scores), num_samples)


def answer_figures(rows: pd.DataFrame, *, seed: int, thresholds: Sequence[float] = THRESHOLDS) -> dict[str, Figure]:
    """
    How often answers are correct, each problem counting once, and how much of that a threshold of the probability buys.

    Args:
        rows (`pd.DataFrame`):
            As in [`choose`].
        seed (`int`):
            Of the halves: a choice's probability comes from a calibration on the problems of the other half.
        thresholds (`Sequence[float]`):
            An answer is withheld where its probability is below.

    Returns:
        `dict[str, Figure]`: `answers/first`, `answers/majority`, `answers/best` (shares of correct ones; no answer is not
        correct), `answers/gain` (best less first), and per threshold t `answers/coverage_t` (share of problems that are
        answered) and `answers/accuracy_t` (share of the answered ones that are correct).
    """
    choices = choose(rows)
    ids = choices["problem_id"]
    probabilities = _crossfitted(choices, seed)
    figures = {f"answers/{name}": rate_by_problem(choices[name], ids) for name in ("first", "majority", "best")}
    figures["answers/gain"] = rate_difference(choices["best"], ids, choices["first"], ids)
    for threshold in thresholds:
        is_answered = probabilities >= threshold
        figures[f"answers/coverage_{threshold}"] = rate_by_problem(is_answered, ids)
        answered = choices[is_answered]
        figures[f"answers/accuracy_{threshold}"] = rate_by_problem(answered["best"], answered["problem_id"])
    return figures


def _crossfitted(choices: pd.DataFrame, seed: int) -> np.ndarray:
    """The probability of each choice; 0 where there is none, or nothing to calibrate it by."""
    is_first = first_half(choices["problem_id"], seed=seed)
    probabilities = np.zeros(len(choices))
    for half in (is_first, ~is_first):
        others = choices[~half]
        if others["score"].notna().any():
            calibration = fit_calibration(others)
            scored = (half & choices["score"].notna()).to_numpy()
            probabilities[scored] = [calibration.probability(score) for score in choices.loc[scored, "score"]]
    return probabilities
