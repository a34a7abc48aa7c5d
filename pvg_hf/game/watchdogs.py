"""
Watchdogs of a prover phase detect a collapsed sneaky role, a gamed verifier, and a checker whose mistakes the prover
exploits.

The first two look at the phase many times, and are corrected for it: in a phase in which nothing changes, the
probability of an alert of a kind is at most 5 % over all its steps, unless neighbouring steps depend on each other so
strongly that it does not show within a window (`benchmarks/watchdog_alarms.py` measures both).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, linregress, t

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.files import Journal, write_json
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.prover_figures import WrongSolutions, false_positive_rises, is_collapse_expected
from pvg_hf.run.layout import FALSE_POSITIVES, WRONG_SOLUTIONS
from pvg_hf.run.stored import FalsePositiveRise, FalsePositives

Alert = Callable[[str, str], None]

FALSE_ALARM_RATE = 0.05  # of each kind of alert, in a whole phase in which nothing changes

NUM_GOODHARTING_TESTS = 2  # a closing gap, and reversed ranks

LEAST_STEPS = 3  # fewer have no standard error of a slope

MAX_CORRELATION = 0.95  # of neighbouring steps, as far as it is estimated


class Watchdogs:
    """
    Tests each phase's figures for a change. An alert of each kind is raised at most once per phase.

    Tested are the whole phase, each half, each quarter, and so on down to `window` steps, each when its last step is
    reached. The tests share the false-alarm rate of the phase equally (Bonferroni). Those of a trend and of the ranks
    allow for steps that depend on their neighbours, as far as the dependence shows within a window; that of a collapse
    takes steps as independent.

    Args:
        sneaky_groups: Groups of sneaky solutions per step; 0 if the sneaky role is not trained. A group's solutions
            may all be alike, so that it counts as one observation.
        fixed: Means of a role that is not trained in this phase; its `score/helpful_correct` is used for the score
            gap.
    """

    def __init__(
        self,
        config: WatchdogConfig,
        alert: Alert,
        *,
        num_steps: int,
        sneaky_groups: int,
        fixed: Mapping[str, float] | None = None,
    ):
        self.config = config
        self.has_collapsed = False
        self.is_goodharting = False
        self._alert = alert
        self._sneaky_groups = sneaky_groups
        self._fixed = dict(fixed or {})
        self._lengths = window_lengths(num_steps, config.window)
        num_looks = sum(num_steps // length for length in self._lengths)
        self._level = FALSE_ALARM_RATE / max(1, num_looks)  # of a single test
        self._valid: list[float] = []
        self._gaps: list[tuple[float, float]] = []  # score gap and exploit rate of a step that has both
        self._correlations: list[float] = []

    def update(self, step: int, figures: Mapping[str, float]) -> str | None:
        """Add a step's figures, and return why the phase should end, if it should."""
        if "valid_sneaky" in figures:
            self._valid.append(figures["valid_sneaky"])
            self._watch_collapse(step)
        reasons = [*self._test_gap(figures), *self._test_ranks(figures)]
        if reasons and not self.is_goodharting and self.config.goodharting != "off":
            self.is_goodharting = True
            # The sneaky role is trained for it; in a training of the helpful role alone it is a fault.
            self._alert("goodharting" if self._sneaky_groups else "helpful_goodharting", f"Step {step}: {reasons[0]}.")
        collapse_ends = self.has_collapsed and self.config.collapse_recovery != "none"
        ends = collapse_ends or (self.is_goodharting and self.config.goodharting == "stop")
        return f"watchdog at step {step}" if ends else None

    def _watch_collapse(self, step: int) -> None:
        for length in self._due(self._valid):
            share, number = float(np.mean(self._valid[-length:])), length * self._sneaky_groups
            p_value = binom.cdf(np.ceil(share * number), number, self.config.min_valid_sneaky)
            # Shares above the threshold are no collapse, however few the groups are.
            if self.has_collapsed or share >= self.config.min_valid_sneaky or p_value > self._level:
                continue
            self.has_collapsed = True
            self._alert(
                "sneaky_collapse",
                f"Step {step}: {share:.0%} of the sneaky solutions of the last {length} steps are answered and "
                f"incorrect, significantly below {self.config.min_valid_sneaky:.0%}.",
            )

    def _test_gap(self, figures: Mapping[str, float]) -> list[str]:
        """Test whether the gap shrinks and the verifier accepts more mistakes; return a description if it does."""
        sneaky, helpful = figures.get("score/sneaky_incorrect"), self._fixed.get("score/helpful_correct")
        gap = figures.get("score_gap") if sneaky is None or helpful is None else helpful - sneaky
        if gap is None or "exploit_rate" not in figures:
            return []
        self._gaps.append((gap, figures["exploit_rate"]))
        found = []
        for length in self._due(self._gaps):
            gaps, exploits = np.array(self._gaps[-length:]).T
            falling, rising = fit_trend(gaps, "less"), fit_trend(exploits, "greater")
            # Both must be significant, so that the pair of tests is no more often wrong than either.
            if max(falling.p_value, rising.p_value) <= self._level / NUM_GOODHARTING_TESTS:
                first, last = np.clip([rising.first, rising.last], 0, 1)  # a line through shares can end outside
                found.append(
                    f"over {length} steps the score gap fell from {falling.first:.2f} to {falling.last:.2f} while the"
                    f" exploit rate rose from {first:.0%} to {last:.0%} (ends of fitted lines)"
                )
        return found

    def _test_ranks(self, figures: Mapping[str, float]) -> list[str]:
        """Test whether the verifier ranks incorrect solutions above correct ones; return a description if it does."""
        if "score_correctness_correlation" not in figures:
            return []
        self._correlations.append(figures["score_correctness_correlation"])
        return [
            f"over {length} steps the verifier ranked incorrect solutions above correct ones"
            for length in self._due(self._correlations)
            if p_value_below_zero(np.array(self._correlations[-length:])) <= self._level / NUM_GOODHARTING_TESTS
        ]

    def _due(self, values: list) -> list[int]:
        """Return the lengths of the windows that end with the newest of `values`."""
        return [length for length in self._lengths if len(values) % length == 0]


@dataclass(frozen=True)
class Trend:
    """A line that is fitted to the figures of successive steps: its values at both ends."""

    first: float
    last: float
    p_value: float  # of the slope, one-sided, by Student's t


def window_lengths(num_steps: int, least: int) -> list[int]:
    """
    Return the lengths of the windows that are tested: the whole phase, its half, quarter, ..., of at least `least`
    steps.
    """
    halves = (num_steps >> power for power in range(num_steps.bit_length()))
    return [length for length in halves if length >= least]


def fit_trend(values: np.ndarray, alternative: str) -> Trend:
    """Fit a line to the figures of successive steps, and test its slope for being `less` or `greater` than 0."""
    if len(values) < LEAST_STEPS or np.ptp(values) == 0:
        return Trend(float(values[0]), float(values[-1]), 1.0)
    fit = linregress(np.arange(len(values)), values)
    line = fit.intercept + fit.slope * np.arange(len(values))
    p_value = _p_value(fit.slope, fit.stderr, values - line, num_parameters=2)
    return Trend(float(line[0]), float(line[-1]), p_value if alternative == "less" else 1 - p_value)


def p_value_below_zero(values: np.ndarray) -> float:
    """Return the p-value of a negative mean, by Student's t for steps that depend on each other."""
    if len(values) < LEAST_STEPS:
        return 1.0
    if np.ptp(values) == 0:
        return 0.0 if values[0] < 0 else 1.0
    error = values.std(ddof=1) / np.sqrt(len(values))
    return _p_value(values.mean(), error, values - values.mean(), num_parameters=1)


def _p_value(estimate: float, error: float, residuals: np.ndarray, *, num_parameters: int) -> float:
    """
    Return the p-value of an estimate below 0, by Student's t.

    The standard error is that for independent residuals. It is raised, and the degrees of freedom lowered, for
    residuals that are correlated as a first-order autoregression is: n of them count as n (1 - r) / (1 + r) (Bartlett
    1935). The estimate of r is corrected for its bias towards 0 in short windows, and a negative one counts as 0.
    """
    number, total = len(residuals), float(residuals @ residuals)
    found = float(residuals[1:] @ residuals[:-1]) / total if total else 0.0
    correlation = min(max(0.0, found + (num_parameters + (num_parameters + 2) * found) / number), MAX_CORRELATION)
    share = (1 - correlation) / (1 + correlation)
    freedom = max(1.0, number * share - num_parameters)
    return float(t.cdf(estimate / max(error / share**0.5, 1e-300), freedom))


class FalsePositiveWatch:
    """
    Counts accepted wrong solutions from the start of a prover's training, and compares them once.

    The alert is raised for the helpful role only, since the sneaky role is paid for mistakes that the verifier
    accepts, and only for a checker whose acceptance is paid: a prover learns to exploit no other.

    The counts are written into the training's `folder`, so that a resumed training has them. They are compared after
    `last_step`, the last early one ([`~pvg_hf.evaluation.prover_figures.last_early_step`]).

    Args:
        has_checker: Whether the reward uses observed labels instead of the grades.
        pays_scores: Whether the reward may pay the helpful role's mistakes for their scores.
    """

    def __init__(
        self,
        config: WatchdogConfig,
        folder: Path,
        alert: Alert,
        *,
        last_step: int,
        acceptance: Acceptance,
        has_checker: bool,
        pays_scores: bool,
        is_main: bool = True,
    ):
        self.config = config
        self.last_step = last_step
        self.acceptance = acceptance
        self.has_checker = has_checker
        self.pays_scores = pays_scores
        self.has_risen = False
        self._journal = Journal(folder / WRONG_SOLUTIONS)
        self._alert = alert
        self._is_main = is_main
        self._rows: list[dict[str, Any]] = []
        self._is_compared = False

    def begin(self, step: int) -> None:
        """Start or resume after `step` steps; counts of later steps from an earlier start are dropped."""
        if self.config.false_positives == "off":
            return
        self._rows = [row for row in self._journal.read() if row["step"] < step]
        if self._is_main:
            self._journal.path.parent.mkdir(parents=True, exist_ok=True)
            self._journal.path.touch()
            self._journal.keep(lambda row: row["step"] < step)

    def observe(self, step: int, graded: Sequence[dict[str, Any]]) -> None:
        """
        Count the wrong solutions of a batch that was written after `step` steps; failed ones are not counted.

        The solutions are those of all processes: `problem_id`, `role`, `correct`, `failed`, `score`, and `label` (NaN
        without one).
        """
        if step > self.last_step or self.config.false_positives == "off":
            return
        wrong: Counter[tuple[str, str, str]] = Counter()
        accepted: Counter[tuple[str, str, str]] = Counter()
        for one in graded:
            if one["failed"] or one["correct"]:
                continue
            verdicts = {"verifier": self.acceptance.accepts(one["score"])}
            if self.has_checker and one["label"] == one["label"]:  # NaN differs from itself
                verdicts["labels"] = one["label"] == 1
            for checker, is_accepted in verdicts.items():
                place = (one["problem_id"], checker, one["role"])
                wrong[place] += 1
                accepted[place] += is_accepted
        rows = [
            WrongSolutions(step, *place, wrong=number, accepted=accepted[place])._asdict()
            for place, number in wrong.items()
        ]
        self._rows += rows
        if self._is_main:
            self._journal.append(*rows)

    def update(self, step: int, figures: Mapping[str, float]) -> str | None:
        """Compare once the last early step was trained on, and return why the phase should end, if it should."""
        if step > self.last_step and not self._is_compared and self.config.false_positives != "off":
            self._is_compared = True
            self._compare(step)
        return f"watchdog at step {step}" if self.has_risen and self.config.false_positives == "stop" else None

    def _compare(self, step: int) -> None:
        for found in false_positive_rises(self._rows):
            is_paid = found.role == Role.HELPFUL and (found.checker == "labels" or self.pays_scores)
            if not is_paid or not is_collapse_expected(found.rise, self.config.max_false_positive_rise):
                continue
            self.has_risen = True
            judge = "the labels accept" if found.checker == "labels" else "the verifier accepts"
            self._alert(
                "rise_of_false_positives",
                f"Step {step}: {judge} {found.early.value:.0%} of the helpful role's wrong solutions since the first"
                f" step, {found.before.value:.0%} before it. A rise of {self.config.max_false_positive_rise:.0%} or"
                " more is typical of a training that collapses.",
            )


def summarize_false_positives(output: Path, round_index: int) -> dict[str, float | None]:
    """Write `false-positives.json` from the counts of a prover phase, if it has any, and return metrics on them."""
    logs = sorted([output / WRONG_SOLUTIONS, *output.glob(f"[!.]*/{WRONG_SOLUTIONS}")])
    rises = false_positive_rises(row for log in logs if log.exists() for row in Journal(log).read())
    if rises:
        write_json(output / FALSE_POSITIVES, asdict(FalsePositives(round_index, rises)))
    return dict(metric for found in rises for metric in _metrics(found))


def _metrics(found: FalsePositiveRise) -> Iterator[tuple[str, float | None]]:
    key = f"false_positive_rise/{found.name}"
    yield key, found.rise.value
    yield from ((f"{key}/{name}", vars(found.rise)[name]) for name in ("low", "high", "n"))
    yield f"{key}/before", found.before.value
    yield f"{key}/early", found.early.value
