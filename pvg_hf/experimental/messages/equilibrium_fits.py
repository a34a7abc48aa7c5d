"""
Growth of the deviation from the clean equilibrium with the noise: linear, quadratic and power-law fits through the
origin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import curve_fit
from scipy.stats import t

from pvg_hf.core.figure import ALPHA, Figure

_TINY = 1e-18  # a smaller sum of squares is 0 up to rounding

FORMS = {
    "linear": (("a",), lambda x, a: a * x),
    "quadratic": (("a", "b"), lambda x, a, b: a * x + b * x**2),
    "power": (("a", "k"), lambda x, a, k: a * x**k),
}
"""Names of the parameters, and the function, of each form: a e, a e + b e^2, and a e^k."""


@dataclass(frozen=True)
class DeviationFit:
    """
    Least-squares fit of a deviation, which is 0 without noise.

    Args:
        params: Parameters with 95 % intervals by Student's t, from the curvature at the optimum.
        r_squared: Explained share of the variance about the mean; `None` without variance.
        bic: Bayesian information criterion, n log(SSE / n) + k log n; lower is better. It penalises each parameter by
            log n.
    """

    form: str
    params: dict[str, Figure]
    r_squared: float | None
    bic: float

    def __call__(self, levels: np.ndarray) -> np.ndarray:
        """Evaluate the fit."""
        return FORMS[self.form][1](levels, *(param.value for param in self.params.values()))


def fit_deviation(levels: Sequence[float], values: Sequence[float], form: str) -> DeviationFit | None:
    """
    Fit a form to the deviations at positive noise levels.

    Args:
        levels: Noise levels epsilon; those at 0 are left out, as the deviation is 0 there by definition.
        values: Deviations, one per level and seed.
    Returns: [`DeviationFit`], or `None` if there are too few values or the fit does not converge.
    """
    x, y = np.asarray(levels, dtype=float), np.asarray(values, dtype=float)
    x, y = x[np.asarray(levels) > 0], y[np.asarray(levels) > 0]
    names, function = FORMS[form]
    if len(x) <= len(names) or len(set(x)) < len(names):
        return None
    slope = float((x @ y) / (x @ x))
    start = {"linear": [slope], "quadratic": [slope, 0.0], "power": [slope, 1.0]}[form]
    try:
        found, covariance = curve_fit(function, x, y, p0=start, maxfev=20_000)
    except RuntimeError:  # no convergence
        return None
    errors = (y - function(x, *found)) @ (y - function(x, *found))
    spread = ((y - y.mean()) ** 2).sum()
    half = t.ppf(1 - ALPHA / 2, len(x) - len(names)) * np.sqrt(np.diag(covariance))
    params = {
        name: Figure(float(value), float(value - width), float(value + width), len(x))
        for name, value, width in zip(names, found, half)
    }
    bic = len(x) * math.log(max(errors, _TINY) / len(x)) + len(names) * math.log(len(x))
    return DeviationFit(form, params, 1 - errors / spread if spread > _TINY else None, bic)


def growth_statement(levels: Sequence[float], values: Sequence[float]) -> str:
    """State whether a deviation is O(epsilon), by the exponent of the power law and the penalised linear fit."""
    power, linear, quadratic = (fit_deviation(levels, values, form) for form in ("power", "linear", "quadratic"))
    if power is None or linear is None or quadratic is None:
        return "too few values for a statement"
    low, high = power.params["k"].low, power.params["k"].high
    if low > 1:
        growth = "grows faster than linearly, so that it is O(epsilon) near 0"
    elif high < 1:
        growth = "grows more slowly than linearly, so that near 0 it is not O(epsilon)"
    else:
        growth = "is consistent with O(epsilon)"
    better = "linear" if linear.bic <= quadratic.bic else "quadratic"
    return (
        f"exponent {power.params['k'].value:.2f} [{low:.2f}, {high:.2f}]: it {growth}; the {better} fit has the"
        " lower BIC"
    )
