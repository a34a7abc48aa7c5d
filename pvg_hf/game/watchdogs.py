"""Watchdogs of a prover phase: a collapsed sneaky role, and a verifier that is being gamed."""

from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
from scipy.stats import linregress

from pvg_hf.config.sections import WatchdogConfig

Alert = Callable[[str, str], None]

SIGNIFICANT = 2.0  # standard errors


class Watchdogs:
    """
    Looks at each step's figures over a window; an alert of a kind is raised once a phase.

    Args:
        config ([`WatchdogConfig`]):
            Window, thresholds and what to do.
        alert (`Callable`):
            `(kind, message)`.
        fixed (`Mapping[str, float]`, *optional*):
            Means of a side that is not trained in this phase; the score gap is taken from its `score/helpful_correct`.
    """

    def __init__(self, config: WatchdogConfig, alert: Alert, fixed: Mapping[str, float] | None = None):
        self.config = config
        self.has_collapsed = False
        self.is_goodharting = False
        self._alert = alert
        self._fixed = dict(fixed or {})
        self._windows: dict[str, deque[float]] = {}

    def update(self, step: int, figures: Mapping[str, float]) -> bool:
        """Take in a step's figures; True when the phase should end."""
        figures = self._add_gap(figures)
        for key in ("valid_sneaky", "score_gap", "exploit_rate", "score_correctness_correlation"):
            if key in figures:
                self._windows.setdefault(key, deque(maxlen=self.config.window)).append(figures[key])
        self._watch_collapse(step)
        self._watch_goodharting(step)
        collapse_ends = self.has_collapsed and self.config.collapse_recovery != "none"
        return collapse_ends or (self.is_goodharting and self.config.goodharting == "stop")

    def _add_gap(self, figures: Mapping[str, float]) -> Mapping[str, float]:
        """A step's figures with its score gap, also where only one side of it is of the step."""
        sneaky, helpful = figures.get("score/sneaky_incorrect"), self._fixed.get("score/helpful_correct")
        return figures if sneaky is None or helpful is None else {**figures, "score_gap": helpful - sneaky}

    def _watch_collapse(self, step: int) -> None:
        valid = self._window("valid_sneaky")
        if not self.has_collapsed and valid is not None and valid.mean() < self.config.min_valid_sneaky:
            self.has_collapsed = True
            self._alert(
                "sneaky_collapse",
                f"Step {step}: {valid.mean():.0%} of the sneaky solutions of the last {len(valid)} steps are answered and "
                f"incorrect, below {self.config.min_valid_sneaky:.0%}.",
            )

    def _watch_goodharting(self, step: int) -> None:
        if self.is_goodharting or self.config.goodharting == "off":
            return
        reason = self._gap_closes() or self._ranks_reversed()
        if reason:
            self.is_goodharting = True
            self._alert("goodharting", f"Step {step}: {reason}.")

    def _gap_closes(self) -> str | None:
        gap, exploits = self._window("score_gap"), self._window("exploit_rate")
        if gap is None or exploits is None or _trend(gap) > -SIGNIFICANT or _trend(exploits) < SIGNIFICANT:
            return None
        return (
            f"over {len(gap)} steps the score gap fell from {gap[0]:.2f} to {gap[-1]:.2f} while the exploit rate rose "
            f"from {exploits[0]:.0%} to {exploits[-1]:.0%}"
        )

    def _ranks_reversed(self) -> str | None:
        correlations = self._window("score_correctness_correlation")
        if correlations is None or correlations.mean() >= 0:
            return None
        return f"over {len(correlations)} steps the verifier ranked incorrect solutions above correct ones"

    def _window(self, key: str) -> np.ndarray | None:
        """The figures of a full window."""
        window = self._windows.get(key, ())
        return np.array(window) if len(window) == self.config.window else None


def _trend(values: np.ndarray) -> float:
    """Slope over its standard error; 0 for a window too short or without change."""
    if len(values) < 3 or np.ptp(values) == 0:
        return 0.0
    fit = linregress(np.arange(len(values)), values)
    return float(fit.slope / max(fit.stderr, 1e-12))
