"""Estimates the rates of wrong labels from several calls of a noisy checker on each item, without knowing any truth."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import comb
from scipy.stats import binom, chi2

from pvg_hf.core.figure import ALPHA, Figure
from pvg_hf.noise.estimation import NoiseEstimate

MIN_CALLS = 3
MAX_STEPS = 20_000  # limit on EM steps; EM ends earlier when the likelihood converges
TOLERANCE = 1e-10  # change of the mean log-likelihood per item at convergence
_EDGE = 1e-9  # distance that rates and prevalences keep from 0 and 1 during the estimation


@dataclass(frozen=True)
class LatentClassEstimate(NoiseEstimate):
    """
    Rates of wrong labels and prevalence, estimated without known truths.

    Args:
        prevalence ([`~pvg_hf.core.figure.Figure`]):
            Share of items that are truly correct.
        fit_p_value (`float`, *optional*):
            P(counts deviate from the model at least as much as these, if it holds), by Pearson's chi-squared test; `None`
            with three calls per item, which any three parameters can fit. A small value indicates that calls err together,
            e.g. on items that are hard for the checker. The rates are then wrong; use a trusted subset.
    """

    prevalence: Figure
    fit_p_value: float | None


def rates_from_calls(calls: ArrayLike) -> LatentClassEstimate:
    """
    Estimate the rates of a checker that was called several times on each item.

    The EM algorithm fits a mixture of two binomial distributions (a latent-class model after Dawid & Skene 1979 with one
    kind of rater). Intervals come from the profile likelihood. The estimate is valid if calls on an item err independently,
    at the same two rates for all items. Of the two mirrored solutions, the one with `rho0 + rho1 < 1` is returned.

    Args:
        calls (`ArrayLike` of shape `(num_items, num_calls)`):
            1 (accepted), 0 (rejected), or NaN (abstained). Items with fewer than three answers are ignored.

    Raises:
        ValueError: if the calls do not determine the rates: there are fewer than three answers on every item, a value is
            not an answer, or a single binomial fits as well (all items are alike, or the checker guesses).
    """
    table = _Table.count(calls)
    full = _fit(table)
    single = _single_likelihood(table)
    gain = 2 * (full.likelihood - single)
    # Three parameters against one. The gain of a mixture does not follow this asymptotic law, hence the high threshold.
    needed = float(chi2.ppf(0.999, 2))
    if gain < needed:
        raise ValueError(
            f"The calls on {table.num_items} items do not distinguish two kinds of items (likelihood ratio {gain:.1f}, needed "
            f"{needed:.1f}): all items may be of one kind, or the checker may guess, so that its rates cannot be determined. "
            "Ask about more items, of both kinds, or use a trusted subset (`rates_from_trusted`)."
        )
    rho0, rho1, prevalence = (_profile_interval(table, full, index) for index in range(3))
    return LatentClassEstimate(rho0, rho1, prevalence, _fit_p_value(table, full))


@dataclass(frozen=True)
class _Table:
    """Number of items with `accepted` of `asked` answers, per cell; each array has shape `(num_cells,)`."""

    accepted: np.ndarray
    asked: np.ndarray
    num: np.ndarray

    @property
    def num_items(self) -> int:
        return int(self.num.sum())

    @classmethod
    def count(cls, calls: ArrayLike) -> "_Table":
        calls = np.asarray(calls, dtype=float)
        if calls.ndim != 2:
            raise ValueError(f"`calls` has shape {calls.shape}; it must be (num_items, num_calls).")
        is_answer = ~np.isnan(calls)
        odd = is_answer & ~np.isin(calls, (0, 1))
        if odd.any():
            raise ValueError(f"A call is 1, 0 or NaN; {int(odd.sum())} are not, e.g. {calls[odd][0]}.")
        asked, accepted = is_answer.sum(axis=1), np.nansum(calls, axis=1).astype(int)
        is_used = asked >= MIN_CALLS
        if not is_used.any():
            raise ValueError(
                f"No item has {MIN_CALLS} answers (the maximum is {asked.max(initial=0)}): with fewer, other rates explain "
                "the calls as well. Ask at least three times about each item."
            )
        cells, num = np.unique(np.stack([accepted, asked])[:, is_used], axis=1, return_counts=True)
        return cls(cells[0], cells[1], num)


@dataclass(frozen=True)
class _Fit:
    """Parameters `(rho0, rho1, prevalence)` and their log-likelihood."""

    parameters: tuple[float, float, float]
    likelihood: float


def _fit(table: _Table, fixed: int | None = None, value: float = 0.0, start: _Fit | None = None) -> _Fit:
    """Run EM from `start` or from several default points; the parameter with the index `fixed` stays at `value`."""
    starts = [start.parameters] if start else [(0.05, 0.05, 0.5), (0.3, 0.3, 0.5), (0.1, 0.3, 0.8), (0.3, 0.1, 0.2)]
    return max((_climb(table, point, fixed, value) for point in starts), key=lambda fit: fit.likelihood)


def _climb(table: _Table, point: tuple[float, float, float], fixed: int | None, value: float) -> _Fit:
    parameters, likelihood = np.array(point), -np.inf
    if fixed is not None:
        parameters = _clip_to_edge(parameters, fixed, value, accepted=1 - point[1])
    for _ in range(MAX_STEPS):
        parameters = parameters.clip(_EDGE, 1 - _EDGE)
        joint = _joint_probabilities(table, parameters)
        total = joint.sum(axis=0)
        last, likelihood = likelihood, float((table.num * np.log(total)).sum())
        if likelihood - last < TOLERANCE * table.num_items:
            break
        weights = table.num * joint / total  # expected items of truth 0 and 1 in each cell
        answers = (weights * table.asked).sum(axis=1)
        yes = (weights * table.accepted).sum(axis=1)
        parameters = np.array([yes[0] / answers[0], 1 - yes[1] / answers[1], weights[1].sum() / table.num_items])
        if fixed is not None:
            parameters = _clip_to_edge(parameters, fixed, value, accepted=yes.sum() / answers.sum())
    rho0, rho1, prevalence = parameters.tolist()
    if fixed is None and rho0 + rho1 > 1:  # the mirrored solution of the same likelihood: swap the truths
        rho0, rho1, prevalence = 1 - rho1, 1 - rho0, 1 - prevalence
    return _Fit((rho0, rho1, prevalence), likelihood)


def _clip_to_edge(parameters: np.ndarray, fixed: int, value: float, accepted: float) -> np.ndarray:
    """Fix one parameter and restrict the others to `rho0 + rho1 <= 1`; on this boundary all items are alike."""
    parameters[fixed] = value
    if parameters[0] + parameters[1] > 1:
        accepted = {0: value, 1: 1 - value, 2: accepted}[fixed]
        parameters[:2] = accepted, 1 - accepted
    return parameters


def _joint_probabilities(table: _Table, parameters: np.ndarray) -> np.ndarray:
    """Return P(truth, cell) given the number of answers, of shape `(2, num_cells)`."""
    rho0, rho1, prevalence = parameters
    accept = np.array([[rho0], [1 - rho1]])  # (truth, 1): P(accepted | truth)
    cells = comb(table.asked, table.accepted) * accept**table.accepted * (1 - accept) ** (table.asked - table.accepted)
    return np.array([[1 - prevalence], [prevalence]]) * cells


def _single_likelihood(table: _Table) -> float:
    """Return the log-likelihood of a single binomial for all items."""
    share = (table.num * table.accepted).sum() / (table.num * table.asked).sum()
    return float((table.num * binom.logpmf(table.accepted, table.asked, share)).sum())


def _profile_interval(table: _Table, full: _Fit, index: int) -> Figure:
    """Return the values that the likelihood does not reject when the other two parameters are refitted."""
    best, bar = full.parameters[index], chi2.ppf(1 - ALPHA, 1) / 2

    def excess(value: float) -> float:
        return full.likelihood - _fit(table, index, value, start=full).likelihood - bar

    ends = []
    for edge in (0.0, 1.0):
        inside = min(max(best, _EDGE), 1 - _EDGE)
        ends.append(edge if excess(edge) <= 0 else float(brentq(excess, edge, inside, xtol=1e-4)))
    return Figure(best, *ends, table.num_items)


def _fit_p_value(table: _Table, full: _Fit) -> float | None:
    """Return the p-value of Pearson's chi-squared test over all possible cells, given the number of answers per item."""
    statistic, num_free = 0.0, -3
    for asked in np.unique(table.asked):
        at = table.asked == asked
        cells = _Table(np.arange(asked + 1), np.full(asked + 1, asked), np.zeros(asked + 1))
        expected = table.num[at].sum() * _joint_probabilities(cells, np.array(full.parameters)).sum(axis=0)
        observed = np.zeros(asked + 1)
        observed[table.accepted[at]] = table.num[at]
        statistic += float(((observed - expected) ** 2 / np.maximum(expected, _EDGE)).sum())
        num_free += int(asked)
    return float(chi2.sf(statistic, num_free)) if num_free > 0 else None
