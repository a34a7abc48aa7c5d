"""What a game is good for: of several helpful solutions the answer that is most likely to be correct, or none."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.intervals import rate_by_problem, rate_difference
from pvg_hf.evaluation.roles import has_failed
from pvg_hf.evaluation.verifier_quality import first_half
from pvg_hf.tasks.answers import answers_equal

THRESHOLDS = (0.5, 0.8, 0.9)

RULES = ("weighted-vote", "best", "vote")
"""How one of several answers is chosen; where two rules are equally often correct, the first one here is taken."""

SameAnswer = Callable[[str | None, str | None], bool]


@dataclass(frozen=True)
class Calibration:
    """
    From a number that grows with confidence to the probability of being correct, `sigmoid(slope * number + intercept)`.

    Args:
        slope (`float`):
            At least 0; 0 where the numbers said nothing.
        intercept (`float`):
            Log-odds at 0.
        num_problems (`int`):
            Choices that it was fitted on.
        num_samples (`int`, *optional*):
            Of how many solutions each was chosen. It holds for this number only: the best score of more solutions is
            higher, and not as much more often correct.
    """

    slope: float
    intercept: float
    num_problems: int
    num_samples: int | None = None

    def probability(self, confidence: float) -> float:
        """In (0, 1)."""
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, self.slope * confidence + self.intercept))))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Choice:
    """
    Args:
        index (`int`):
            Of the chosen solution.
        confidence (`float`):
            Its score (`best`); the share of solutions that give its answer (`vote`); or the sum of their weights over the
            number of solutions (`weighted-vote`).
        votes (`int`):
            Solutions that give its answer.
    """

    index: int
    confidence: float
    votes: int


def choose_answer(
    answers: Sequence[str | None],
    scores: Sequence[float],
    rule: str,
    *,
    weigh: Calibration | None = None,
    same: SameAnswer = answers_equal,
) -> Choice | None:
    """
    Choose one of several solutions to a problem.

    Args:
        answers (`Sequence[str | None]`):
            Their final answers; `None` for a solution that cannot be chosen.
        scores (`Sequence[float]`):
            The verifier's.
        rule (`str`):
            `best`: the highest score. `vote`: the answer that most solutions give. `weighted-vote`: the answer whose
            solutions have the largest sum of weights. Of equal votes, the answer that was given first wins; of equal sums
            the one with the highest score; of equal scores the earlier solution. With either vote, the chosen solution is
            the highest-scoring one with that answer.
        weigh ([`Calibration`], *optional*):
            From a single solution's score to its weight; for `weighted-vote`.
        same (`Callable`):
            Whether two answers are the same.

    Returns:
        [`Choice`]; `None` if no solution can be chosen.
    """
    groups: list[list[int]] = []
    for index, answer in enumerate(answers):
        if answer is None:
            continue
        group = next((group for group in groups if same(answers[group[0]], answer)), None)
        if group is None:
            groups.append([index])
        else:
            group.append(index)
    if not groups:
        return None

    def top(group: list[int]) -> int:
        return max(group, key=lambda index: (scores[index], -index))

    if rule == "best":
        index = top([index for group in groups for index in group])
        return Choice(index, scores[index], len(next(group for group in groups if index in group)))
    if rule == "vote":
        group = max(groups, key=len)
        return Choice(top(group), len(group) / len(answers), len(group))
    if rule != "weighted-vote" or weigh is None:
        raise ValueError(f"Unknown rule `{rule}`, or `weighted-vote` without weights; known are {', '.join(RULES)}.")
    weights = [sum(weigh.probability(scores[index]) for index in group) for group in groups]
    group, weight = max(zip(groups, weights, strict=True), key=lambda pair: (pair[1], scores[top(pair[0])]))
    return Choice(top(group), weight / len(answers), len(group))


def choose(rows: pd.DataFrame, *, weigh: Calibration | None = None, same: SameAnswer = answers_equal) -> pd.DataFrame:
    """
    What each rule chooses of each problem's solutions.

    Args:
        rows (`pd.DataFrame`):
            Solutions of one prover in the pool's columns.
        weigh ([`Calibration`], *optional*):
            As [`fit_weights`] gives it; without it there is no `weighted-vote`.
        same (`Callable`):
            Whether two answers are the same.

    Returns:
        `pd.DataFrame`: per problem `problem_id`; whether the first solution is correct (`first`), and whether the choice of
        each rule is (the rule's name); and the choice's confidence (`confidence/RULE`), missing where every solution failed.
        Failed solutions are not chosen.
    """
    rows = rows.sort_values(["problem_id", "sample_index"], kind="stable")
    able = ~has_failed(rows) & rows["score"].notna()
    rows = rows.assign(answer=rows["answer"].where(able, None))
    table = []
    for problem_id, group in rows.groupby("problem_id", sort=False):
        answers = [None if pd.isna(answer) else answer for answer in group["answer"]]
        scores, correct = group["score"].tolist(), group["correct"].astype(bool).tolist()
        found: dict[str, Any] = {"problem_id": problem_id, "first": correct[0]}
        for rule in RULES:
            if rule == "weighted-vote" and weigh is None:
                continue
            choice = choose_answer(answers, scores, rule, weigh=weigh, same=same)
            found[rule] = choice is not None and correct[choice.index]
            found[f"confidence/{rule}"] = np.nan if choice is None else choice.confidence
        table.append(found)
    return pd.DataFrame(table)


def fit_calibration(
    confidence: Sequence[float], correct: Sequence[bool], num_samples: int | None = None
) -> Calibration:
    """
    Platt's scaling (Platt 1999): a logistic regression on the confidence, with targets `(N1 + 1) / (N1 + 2)` and
    `1 / (N0 + 2)` in place of 1 and 0, so that it is finite where correct and incorrect choices do not overlap.

    Args:
        confidence (`Sequence[float]` of shape `(num_choices,)`):
            Of each choice; missing ones are left out.
        correct (`Sequence[bool]` of shape `(num_choices,)`):
            Whether it is correct.
        num_samples (`int`, *optional*):
            Solutions of a problem, to be noted.

    Raises:
        ValueError: if there is no choice.
    """
    confidence, correct = np.asarray(confidence, float), np.asarray(correct, bool)
    is_there = ~np.isnan(confidence)
    confidence, correct = confidence[is_there], correct[is_there]
    if not len(confidence):
        raise ValueError("There is no solution with an answer and a score to calibrate by.")
    num_correct = correct.sum()
    targets = np.where(correct, (num_correct + 1) / (num_correct + 2), 1 / (len(correct) - num_correct + 2))
    # A row with the target p is one of either class, weighted with p and 1 - p.
    centre, scale = confidence.mean(), confidence.std() or 1.0
    features = np.tile((confidence - centre) / scale, 2)[:, None]
    classes = np.repeat([1, 0], len(confidence))
    fitted = LogisticRegression(C=np.inf).fit(features, classes, np.concatenate([targets, 1 - targets]))
    slope = float(fitted.coef_[0, 0] / scale)
    intercept = float(fitted.intercept_[0] - slope * centre)
    if slope < 0:  # the numbers mislead: what remains is how often a choice is correct
        slope, intercept = 0.0, float(np.log(targets.mean() / (1 - targets.mean())))
    return Calibration(slope, intercept, len(confidence), num_samples)


def fit_weights(rows: pd.DataFrame) -> Calibration:
    """
    The probability that a single solution is correct, from its score: the weights of a weighted vote.

    Args:
        rows (`pd.DataFrame`):
            As in [`choose`].

    Raises:
        ValueError: if no solution has an answer and a score.
    """
    able = rows[~has_failed(rows) & rows["score"].notna()]
    return fit_calibration(able["score"], able["correct"], num_samples=1)


@dataclass(frozen=True)
class AnswerRules:
    """
    What was learned of the rules of [`choose_answer`] on problems whose truth is known.

    Args:
        num_samples (`int`):
            Solutions that a choice was made of; the probabilities hold for this number only.
        num_problems (`int`):
            Problems.
        part (`str`):
            Of the split, that they belong to: `verifier_heldout`, or `test` in a run of an earlier version.
        weigh ([`Calibration`], *optional*):
            The weights of a weighted vote.
        calibrations (`dict[str, Calibration]`):
            Of each rule, from a choice's confidence to its probability.
        accuracies (`dict[str, float]`):
            Of each rule, the share of problems whose choice is correct.
    """

    num_samples: int
    num_problems: int
    part: str
    weigh: Calibration | None
    calibrations: Mapping[str, Calibration]
    accuracies: Mapping[str, float]

    @property
    def default(self) -> str:
        """The rule that was correct most often; of equal ones, the first of `RULES`."""
        return max(self.calibrations, key=lambda rule: (self.accuracies.get(rule, 0.0), -RULES.index(rule)))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "AnswerRules":
        """Also of a run of an earlier version, which kept the calibration of `best` on the test problems alone."""
        if "calibrations" not in values:
            fit = Calibration(**values)
            return cls(fit.num_samples or 0, fit.num_problems, "test", None, {"best": fit}, {})
        weigh, fits = values["weigh"], values["calibrations"]
        return cls(
            **{
                **values,
                "weigh": weigh and Calibration(**weigh),
                "calibrations": {rule: Calibration(**fit) for rule, fit in fits.items()},
            }
        )


def fit_rules(rows: pd.DataFrame, num_samples: int, *, same: SameAnswer = answers_equal) -> AnswerRules:
    """
    Args:
        rows (`pd.DataFrame`):
            Solutions in the pool's columns, of one prover to one part of the split.
        num_samples (`int`):
            Solutions that a choice is made of. A problem with more of them counts several times, each time with others.
        same (`Callable`):
            Whether two answers are the same.

    Raises:
        ValueError: if no problem has as many solutions, or no solution has an answer and a score.
    """
    rows = rows.assign(draw=rows["sample_index"] // num_samples)
    sizes = rows.groupby(["problem_id", "draw"])["sample_index"].transform("size")
    rows = rows[sizes == num_samples]
    if not len(rows):
        raise ValueError(f"No problem has {num_samples} solutions.")
    weigh = fit_weights(rows)
    num_problems = rows["problem_id"].nunique()
    choices = choose(
        rows.assign(problem_id=rows["problem_id"] + "/" + rows["draw"].astype(str)), weigh=weigh, same=same
    )
    return AnswerRules(
        num_samples,
        num_problems,
        str(rows["part"].iloc[0]),
        weigh,
        {rule: fit_calibration(choices[f"confidence/{rule}"], choices[rule], num_samples) for rule in RULES},
        {rule: float(choices[rule].mean()) for rule in RULES},
    )


def answer_figures(
    rows: pd.DataFrame,
    *,
    seed: int,
    thresholds: Sequence[float] = THRESHOLDS,
    same: SameAnswer = answers_equal,
) -> dict[str, Figure]:
    """
    How often answers are correct, each problem counting once, and how much of that a threshold of the probability buys.

    Args:
        rows (`pd.DataFrame`):
            As in [`choose`].
        seed (`int`):
            Of the halves: weights, and a choice's probability, come from fits on the problems of the other half.
        thresholds (`Sequence[float]`):
            An answer is withheld where its probability is below.
        same (`Callable`):
            Whether two answers are the same.

    Returns:
        `dict[str, Figure]`: `answers/first`, `answers/majority`, `answers/best`, `answers/weighted` (shares of correct ones;
        no answer is not correct), `answers/gain` (best less first), and per threshold t `answers/coverage_t` (share of
        problems that are answered by the best) and `answers/accuracy_t` (share of the answered ones that are correct).
    """
    choices = _crossfitted(rows, seed, same)
    ids, best = choices["problem_id"], choices["best"]
    names = {"first": "first", "majority": "vote", "best": "best", "weighted": "weighted-vote"}
    figures = {f"answers/{name}": rate_by_problem(choices[column], ids) for name, column in names.items()}
    figures["answers/gain"] = rate_difference(best, ids, choices["first"], ids)
    for threshold in thresholds:
        is_answered = choices["probability"] >= threshold
        figures[f"answers/coverage_{threshold}"] = rate_by_problem(is_answered, ids)
        answered = choices[is_answered]
        figures[f"answers/accuracy_{threshold}"] = rate_by_problem(answered["best"], answered["problem_id"])
    return figures


def _crossfitted(rows: pd.DataFrame, seed: int, same: SameAnswer) -> pd.DataFrame:
    """
    The choices of all problems, with `probability`, that of the best: 0 where there is none, or nothing to calibrate by. A
    half with no fit to take weights from is weighed by nothing, so that its weighted vote is a vote.
    """
    is_first = first_half(rows["problem_id"], seed=seed)
    found = []
    for half in (is_first, ~is_first):
        mine, others = rows[half], rows[~half]
        if not len(mine):
            continue
        can_fit = bool((~has_failed(others) & others["score"].notna()).any())
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
        empty = pd.DataFrame(columns=["problem_id", "first", *RULES, "probability"])
        return empty.astype({"first": bool, **dict.fromkeys(RULES, bool), "probability": float})
    order = rows["problem_id"].drop_duplicates()
    return pd.concat(found).set_index("problem_id").loc[order].reset_index()
