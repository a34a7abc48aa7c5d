"""
Watchdogs of a prover phase detect a collapsed sneaky role and a gamed verifier; a short training recovers the sneaky role.

Each looks at the phase many times, and is corrected for it: in a phase in which nothing changes, the probability of an alert of a
kind is at most 5 % over all its steps, unless neighbouring steps depend on each other so strongly that it does not show within
a window (`benchmarks/watchdog_alarms.py` measures both).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from datasets import Dataset
from scipy.stats import binom, linregress, t

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.training import fine_tune_player
from pvg_hf.sampling.engine_choice import open_sampler
from pvg_hf.sampling.graded_solutions import sample_solutions
from pvg_hf.tasks.base import Problem

Alert = Callable[[str, str], None]

FALSE_ALARM_RATE = 0.05  # of each kind of alert, in a whole phase in which nothing changes

NUM_GOODHARTING_TESTS = 2  # a closing gap, and reversed ranks

LEAST_STEPS = 3  # fewer have no standard error of a slope

MAX_CORRELATION = 0.95  # of neighbouring steps, as far as it is estimated

SUPERVISED_STEPS, BATCH_SIZE = 20, 16  # of the recovery

WRITTEN_PER_ROW = 2  # solutions written for each one that the recovery reads, since some are correct or fail


class Watchdogs:
    """
    Tests each phase's figures for a change. An alert of each kind is raised at most once per phase.

    Tested are the whole phase, each half, each quarter, and so on down to `window` steps, each when its last step is reached. The
    tests share the false-alarm rate of the phase equally (Bonferroni). Those of a trend and of the ranks allow for steps that depend
    on their neighbours, as far as the dependence shows within a window; that of a collapse takes steps as independent.

    Args:
        config ([`WatchdogConfig`]):
            Window, thresholds and reactions.
        alert (`Callable`):
            Called with `(kind, message)`.
        num_steps (`int`):
            Planned steps with figures: the phase's batches.
        sneaky_groups (`int`):
            Groups of sneaky solutions per step; 0 if the sneaky role is not trained. A group's solutions may all be alike, so that
            it counts as one observation.
        fixed (`Mapping[str, float]`, *optional*):
            Means of a role that is not trained in this phase; its `score/helpful_correct` is used for the score gap.
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

    def update(self, step: int, figures: Mapping[str, float]) -> bool:
        """Add a step's figures, and return whether the phase should end."""
        if "valid_sneaky" in figures:
            self._valid.append(figures["valid_sneaky"])
            self._watch_collapse(step)
        reasons = [*self._test_gap(figures), *self._test_ranks(figures)]
        if reasons and not self.is_goodharting and self.config.goodharting != "off":
            self.is_goodharting = True
            # The sneaky role is trained for it; in a training of the helpful role alone it is a fault.
            self._alert("goodharting" if self._sneaky_groups else "helpful_goodharting", f"Step {step}: {reasons[0]}.")
        collapse_ends = self.has_collapsed and self.config.collapse_recovery != "none"
        return collapse_ends or (self.is_goodharting and self.config.goodharting == "stop")

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
                found.append(
                    f"over {length} steps the score gap fell from {falling.first:.2f} to {falling.last:.2f} while the exploit "
                    f"rate rose from {_as_share(rising.first):.0%} to {_as_share(rising.last):.0%} (ends of fitted lines)"
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
    """
    A line that is fitted to the figures of successive steps.

    Args:
        first, last (`float`):
            Its values at both ends.
        p_value (`float`):
            Of the slope, one-sided, by Student's t.
    """

    first: float
    last: float
    p_value: float


def _as_share(value: float) -> float:
    """Return the nearest share: a line through shares can end outside [0, 1]."""
    return min(max(value, 0.0), 1.0)


def window_lengths(num_steps: int, least: int) -> list[int]:
    """Return the lengths of the windows that are tested: the whole phase, its half, quarter, ..., of at least `least` steps."""
    lengths = []
    while num_steps >= least:
        lengths.append(num_steps)
        num_steps //= 2
    return lengths


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

    The standard error is that for independent residuals. It is raised, and the degrees of freedom lowered, for residuals that
    are correlated as a first-order autoregression is: n of them count as n (1 - r) / (1 + r) (Bartlett 1935). The estimate of r is
    corrected for its bias towards 0 in short windows, and a negative one counts as 0.
    """
    number, total = len(residuals), float(residuals @ residuals)
    found = float(residuals[1:] @ residuals[:-1]) / total if total else 0.0
    correlation = min(max(0.0, found + (num_parameters + (num_parameters + 2) * found) / number), MAX_CORRELATION)
    share = (1 - correlation) / (1 + correlation)
    freedom = max(1.0, number * share - num_parameters)
    return float(t.cdf(estimate / max(error / share**0.5, 1e-300), freedom))


def fine_tune_on_incorrect(context: PhaseContext, model, tokenizer) -> None:
    """
    Fine-tune `model` in place on its own incorrect solutions (without failed ones), with sneaky prompts.

    It writes them first, by the base prompt, to the prover's problems (D_pi). The pool has some too, but to the verifier's
    problems, to which the round's prover will write the next verifier's data.
    """
    number = SUPERVISED_STEPS * BATCH_SIZE
    rows = [
        {"prompt": context.problems.prompt(problem, Role.SNEAKY, tokenizer), "completion": text}
        for problem, text in _write_incorrect(context, model, tokenizer, WRITTEN_PER_ROW * number)[:number]
    ]
    if not rows:
        context.alert("sneaky_collapse", "The prover wrote no incorrect solution for the recovery.")
        return
    fine_tune_player(
        context,
        model,
        tokenizer,
        Dataset.from_list(rows),
        seed_path=("recovery",),
        max_steps=SUPERVISED_STEPS,
        batch_size=BATCH_SIZE,
        learning_rate=context.recipe.prover.learning_rate,
        max_length=context.recipe.verifier.max_length,
    )


def _write_incorrect(context: PhaseContext, model, tokenizer, number: int) -> list[tuple[Problem, str]]:
    """Write `number` or a few more solutions to problems of D_pi, and return the incorrect ones with their problems."""
    seed = context.seed("recovery", "solutions")
    problems = context.problems.parts["prover"]
    problems = problems.select(derive_rng(seed).permutation(len(problems))[:number]).to_list()
    sampler = open_sampler(model, tokenizer, **context.players.sampler_settings)
    num_samples = ceil(number / len(problems))
    # Every process writes all of them, so that all train on the same ones.
    rows = sample_solutions(sampler, context.problems.prompts, problems, Role.BASE, num_samples=num_samples, seed=seed)
    by_id = {problem["problem_id"]: problem for problem in problems}
    incorrect = [row for row in rows if row["outcome"] == Outcome.PROOF_INVALID]
    return [(by_id[row["problem_id"]], row["solution"]) for row in incorrect]
