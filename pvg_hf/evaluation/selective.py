"""Answers a problem from several helpful solutions: chooses the answer most likely to be correct, or none."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from pvg_hf.core.figure import Figure
from pvg_hf.core.score_calibration import probability_at
from pvg_hf.evaluation.intervals import first_half, rate_by_problem, rate_difference, share_by_problem
from pvg_hf.evaluation.role_figures import has_failed, scored_rows
from pvg_hf.tasks.answers import answers_equal

THRESHOLDS = (0.5, 0.8, 0.9)
"""An answer is withheld if its probability is below the threshold."""

ANSWER_RULES = ("weighted-vote", "best", "vote")
"""Rules for choosing one of several answers; if two rules are equally often correct, the first is used."""

SameAnswer = Callable[[str | None, str | None], bool]  # whether two answers are the same


@dataclass(frozen=True)
class Calibration:
    """
    Maps a confidence to the probability of being correct, `sigmoid(slope * confidence + intercept)`.

    The slope is at least 0, and 0 if the confidence is not informative. `num_problems` counts the choices that the
    calibration was fitted to. It holds for choices among `num_samples` solutions only: the best score of more
    solutions is higher, but not correct as much more often.
    """

    slope: float
    intercept: float
    num_problems: int
    num_samples: int | None = None

    def probability(self, confidence: float) -> float:
        """Return the probability, in (0, 1]."""
        return probability_at(self.slope * confidence + self.intercept)


@dataclass(frozen=True)
class Choice:
    """
    A chosen solution.

    `index` is its place, `confidence` is explained in [`choose_answer`], and `votes` is the number of solutions with
    its answer. `tied` are the solutions that could have been chosen as well, itself included, by answer.
    """

    index: int
    confidence: float
    votes: int
    tied: tuple[tuple[int, ...], ...]

    def share_right(self, correct: Sequence[bool]) -> float:
        """Return P(the choice is correct) if ties are broken at random: first of answers, then of their solutions."""
        return float(np.mean([np.mean([correct[index] for index in group]) for group in self.tied]))


def choose_answer(
    answers: Sequence[str | None],
    scores: Sequence[float],
    rule: str,
    *,
    weigh: Calibration | None = None,
    same: SameAnswer = answers_equal,
) -> Choice | None:
    """
    Choose one of several solutions to a problem by their answers and the verifier's scores; `None` if none can be
    chosen.

    `answers` are final answers, `None` for a solution that cannot be chosen. The rules are `best`: the highest score,
    which is the confidence; `vote`: the most frequent answer, whose share of the solutions is the confidence; and
    `weighted-vote`: the answer with the largest sum of weights, which `weigh` maps a single solution's score to; the
    confidence is their mean over all solutions, and of equal sums that with the highest score wins. With either vote,
    the highest-scoring solution with the answer is chosen. Of what is still tied, the first is chosen; `tied` has all.
    """
    groups = _group_answers(answers, same)
    if not groups:
        return None
    tops = [max(scores[index] for index in group) for group in groups]
    keys: list[tuple[float, float]]
    if rule == "best":
        keys = [(top, 0.0) for top in tops]
    elif rule == "vote":
        keys = [(float(len(group)), 0.0) for group in groups]
    elif rule == "weighted-vote" and weigh is not None:
        # `fsum` does not depend on the order, whose rounding errors would decide ties.
        sums = [math.fsum(weigh.probability(scores[index]) for index in group) for group in groups]
        keys = list(zip(sums, tops, strict=True))
    else:
        raise ValueError(
            f"Unknown rule `{rule}`, or `weighted-vote` without weights; known are {', '.join(ANSWER_RULES)}."
        )
    highest = max(keys)
    tied = [
        tuple(index for index in group if scores[index] == top)
        for group, top, key in zip(groups, tops, keys, strict=True)
        if key == highest
    ]
    if rule == "best":  # whatever the answer
        tied = [tuple(sorted(index for group in tied for index in group))]
    index = tied[0][0]
    confidence = highest[0] if rule == "best" else highest[0] / len(answers)
    return Choice(index, confidence, next(len(group) for group in groups if index in group), tuple(tied))


def _group_answers(answers: Sequence[str | None], same: SameAnswer) -> list[list[int]]:
    """Return the indices of the solutions with each answer, in the order in which the answers were given first."""
    groups: list[list[int]] = []
    for index, answer in enumerate(answers):
        if answer is None:
            continue
        group = next((group for group in groups if same(answers[group[0]], answer)), None)
        if group is None:
            groups.append([index])
        else:
            group.append(index)
    return groups


def choose(rows: pd.DataFrame, *, weigh: Calibration | None = None, same: SameAnswer = answers_equal) -> pd.DataFrame:
    """
    Apply each rule to each problem's solutions by one prover, of which failed ones are not chosen.

    Without weights, `weighted-vote` is omitted. The table has per problem `problem_id`; whether the first solution is
    correct (`first`); P(the choice of each rule is correct) under the rule's name, see [`Choice.share_right`]; and the
    choice's confidence (`confidence/RULE`), NaN if every solution failed.
    """
    rows = rows.sort_values(["problem_id", "sample_index"], kind="stable")
    rows = rows.assign(answer=rows["answer"].where(~has_failed(rows) & rows["score"].notna(), None))
    rules = [rule for rule in ANSWER_RULES if rule != "weighted-vote" or weigh is not None]
    table = []
    for problem_id, group in rows.groupby("problem_id", sort=False):
        answers = [None if pd.isna(answer) else answer for answer in group["answer"]]
        scores, correct = group["score"].tolist(), group["correct"].astype(bool).tolist()
        found: dict[str, Any] = {"problem_id": problem_id, "first": correct[0]}
        for rule in rules:
            choice = choose_answer(answers, scores, rule, weigh=weigh, same=same)
            found[rule] = 0.0 if choice is None else choice.share_right(correct)
            found[f"confidence/{rule}"] = np.nan if choice is None else choice.confidence
        table.append(found)
    return pd.DataFrame(table)


def fit_calibration(
    confidence: Sequence[float], correct: Sequence[float], num_samples: int | None = None
) -> Calibration:
    """
    Fit a calibration by Platt scaling (Platt 1999), a logistic regression on the confidence; NaN is ignored.

    `correct` is 1 or 0, or a share if ties are open. The targets are `(N1 + 1) / (N1 + 2)` and `1 / (N0 + 2)` instead
    of 1 and 0, so that the fit is finite even if correct and incorrect choices do not overlap. `num_samples`, the
    solutions per problem, is stored.

    Raises:
        ValueError: if there is no choice.
    """
    levels, is_correct = np.asarray(confidence, float), np.asarray(correct, float)
    is_there = ~np.isnan(levels)
    # Problems without a choice say nothing about the confidence.
    levels, is_correct = levels[is_there], is_correct[is_there]
    if not len(levels):
        raise ValueError("There is no solution with an answer and a score to calibrate by.")
    num_correct = is_correct.sum()
    high, low = (num_correct + 1) / (num_correct + 2), 1 / (len(is_correct) - num_correct + 2)
    targets = low + is_correct * (high - low)
    # A row with target p is represented by a row of each class, with weights p and 1 - p.
    # Standardised, so that the solver converges for scores of any scale.
    centre, scale = levels.mean(), levels.std() or 1.0
    features = np.tile((levels - centre) / scale, 2)[:, None]
    classes = np.repeat([1, 0], len(levels))
    fitted = LogisticRegression(C=np.inf).fit(features, classes, np.concatenate([targets, 1 - targets]))
    slope = float(fitted.coef_[0, 0] / scale)
    intercept = float(fitted.intercept_[0] - slope * centre)
    if slope < 0:  # the confidence is misleading: use the share of correct choices only
        slope, intercept = 0.0, float(np.log(targets.mean() / (1 - targets.mean())))
    return Calibration(slope, intercept, len(levels), num_samples)


def fit_weights(rows: pd.DataFrame) -> Calibration:
    """Fit the probability that a single solution is correct, given its score: the weights of a weighted vote."""
    able = scored_rows(rows)
    return fit_calibration(able["score"], able["correct"], num_samples=1)


@dataclass(frozen=True)
class AnswerRules:
    """
    Calibrations and accuracies of the rules of [`choose_answer`], from `num_problems` problems of one `part` of the
    split.

    The probabilities hold for choices among `num_samples` solutions alone. `weigh` has the weights of a weighted vote.
    `calibrations` and `accuracies` have, for each rule, the map from a choice's confidence to its probability of being
    correct, and the share of problems with a correct choice.
    """

    num_samples: int
    num_problems: int
    part: str
    weigh: Calibration | None
    calibrations: Mapping[str, Calibration]
    accuracies: Mapping[str, float]

    @property
    def default(self) -> str:
        """The rule that was correct most often; among equals, the first of `ANSWER_RULES`."""
        return max(self.calibrations, key=lambda rule: (self.accuracies.get(rule, 0.0), -ANSWER_RULES.index(rule)))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def fit_rules(rows: pd.DataFrame, num_samples: int, *, same: SameAnswer = answers_equal) -> AnswerRules:
    """
    Fit the calibrations of all rules to the solutions of one prover, all from one part of the split.

    A choice is made among `num_samples` solutions. A problem with a multiple of them counts several times, with
    different solutions.

    Raises:
        ValueError: if no problem has that many solutions, or no solution has an answer and a score.
    """
    # Consecutive blocks of `num_samples` solutions are separate draws of one choice.
    rows = rows.assign(draw=rows["sample_index"] // num_samples)
    sizes = rows.groupby(["problem_id", "draw"])["sample_index"].transform("size")
    rows = rows[sizes == num_samples]
    if not len(rows):
        raise ValueError(f"No problem has {num_samples} solutions.")
    weigh = fit_weights(rows)
    draws = rows.assign(problem_id=rows["problem_id"] + "/" + rows["draw"].astype(str))
    choices = choose(draws, weigh=weigh, same=same)
    return AnswerRules(
        num_samples,
        rows["problem_id"].nunique(),
        str(rows["part"].iloc[0]),
        weigh,
        {rule: fit_calibration(choices[f"confidence/{rule}"], choices[rule], num_samples) for rule in ANSWER_RULES},
        {rule: float(choices[rule].mean()) for rule in ANSWER_RULES},
    )


def answer_figures(rows: pd.DataFrame, *, seed: int, same: SameAnswer = answers_equal) -> dict[str, Figure]:
    """
    Compute the figures `answers/...` of the catalogue, each problem counting once; no answer counts as incorrect.

    Weights and probabilities for a problem are fitted on the other one of two seeded halves of the problems.
    """
    choices = _crossfit(rows, seed, same)
    ids, best = choices["problem_id"], choices["best"]
    names = {"first": "first", "majority": "vote", "best": "best", "weighted": "weighted-vote"}
    figures = {f"answers/{name}": share_by_problem(choices[column], ids) for name, column in names.items()}
    figures["answers/gain"] = rate_difference(best, ids, choices["first"], ids)
    for threshold in THRESHOLDS:
        is_answered = choices["probability"] >= threshold
        figures[f"answers/coverage_{threshold}"] = rate_by_problem(is_answered, ids)
        answered = choices[is_answered]
        figures[f"answers/accuracy_{threshold}"] = share_by_problem(answered["best"], answered["problem_id"])
    return figures


def _crossfit(rows: pd.DataFrame, seed: int, same: SameAnswer) -> pd.DataFrame:
    """
    Return the choices for all problems, with the `probability` of the best one being correct.

    The probability is 0 if there is no choice, or nothing to calibrate on. If the other half has nothing to fit
    weights on, all weights are equal, so that the weighted vote is a plain vote.
    """
    is_first = first_half(rows["problem_id"], seed=seed)
    found = []
    for half in (is_first, ~is_first):
        mine, others = rows[half], rows[~half]
        if not len(mine):
            continue
        # Cross-fitting: the other half provides weights and calibration.
        can_fit = len(scored_rows(others)) > 0
        weigh = fit_weights(others) if can_fit else Calibration(0.0, 0.0, 0)
        choices = choose(mine, weigh=weigh, same=same)
        probabilities = np.zeros(len(choices))
        if can_fit:
            of_others = choose(others, same=same)
            calibration = fit_calibration(of_others["confidence/best"], of_others["best"])
            scored = choices["confidence/best"].notna().to_numpy()
            probabilities[scored] = [
                calibration.probability(score) for score in choices.loc[scored, "confidence/best"]
            ]
        found.append(choices.assign(probability=probabilities))
    if not found:
        numbers = ["first", *ANSWER_RULES, "probability"]
        types = {"problem_id": object, **dict.fromkeys(numbers, float)}
        return pd.DataFrame(columns=list(types)).astype(types)
    order = rows["problem_id"].drop_duplicates()
    return pd.concat(found).set_index("problem_id").loc[order].reset_index()
