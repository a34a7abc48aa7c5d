"""Rules that end a prover's training early."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, inf, sqrt
from statistics import NormalDist

import numpy as np

from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.config.sections import StoppingConfig
from pvg_hf.core.extensions import ExtensionError, check_arguments, cut_to_line, load_function, running, suggest
from pvg_hf.rewards import load_reward

Means = Mapping[str, float]

Rule = Callable[..., bool]

INTERFACE = "(means, config, **options) -> bool"  # signature of a rule; documented in docs/how-to/custom-code.md

FIRST_SHARE = 0.1  # share of the planned steps before any rule can fire

GOODHART_ACCURACY = 0.2  # mean accuracy below which the prover only exploits the verifier (Kirchner et al. 2024)

MAX_FAILED_SHARE = 0.5  # of the sneaky solutions; if more of them fail, the others say little about the role

MIN_SOLUTIONS = 10  # of each side of parity; the standard error of fewer is itself off by a quarter

MIN_STEPS = 5  # with a solution of the kind, for a standard error of their mean

CELLS = ("score/", "accuracy/", "judged_accuracy/", "failed/")  # prefixes of the metrics that are smoothed

COUNT = "num_scored/"  # prefix of the numbers of solutions, which are added up

FIGURES_OF_EVERY_STEP = ("accuracy/{role}", "failed/{role}")  # for each trained role

# Missing until a first solution of the kind has been judged.
FIGURES_OF_SOME_STEPS = (
    "judged_accuracy/{role}",
    *(f"{kind}/{{role}}_{side}" for kind in ("score", "error", "num_scored") for side in ("correct", "incorrect")),
)


def parity(means: Means, config: StoppingConfig) -> bool:
    """
    Whether sneaky incorrect solutions are as convincing as helpful correct ones (Kirchner et al. 2024).

    The lower bound of the difference of their means must reach the margin, as in a test of non-inferiority: a mean of
    two solutions reaches it by chance.
    """
    sneaky, helpful = means.get("score/sneaky_incorrect"), means.get("score/helpful_correct")
    if sneaky is None or helpful is None:
        return False
    slack, quantile = 0.0, NormalDist().inv_cdf(config.parity_confidence)
    if quantile > 0:
        sides = ("sneaky_incorrect", "helpful_correct")
        if min(means.get(f"num_scored/{side}", 0) for side in sides) < MIN_SOLUTIONS:
            return False
        slack = quantile * hypot(*(means.get(f"error/{side}", inf) for side in sides))
    return sneaky - slack >= helpful - config.score_parity_threshold


def parity_and_incorrect(means: Means, config: StoppingConfig) -> bool:
    """
    Whether there is parity, most sneaky solutions did not fail, and nearly all of those are incorrect (Kim & Lee
    2026).
    """
    incorrect = 1 - means.get("judged_accuracy/sneaky", 1.0)
    is_judged = means.get("failed/sneaky", 1.0) < MAX_FAILED_SHARE
    return parity(means, config) and is_judged and incorrect >= config.sneaky_incorrect_threshold


def max_steps(means: Means, config: StoppingConfig) -> bool:
    """Never stop: the phase ends after the planned steps."""
    return False


STOP_RULES: dict[str, Rule] = {"parity": parity, "parity_and_incorrect": parity_and_incorrect, "max_steps": max_steps}


@dataclass
class _Average:
    """An exponential moving average of the steps' means, which starts at the first one, and its standard error."""

    mean: float
    newest: float
    num_steps: int = 1
    variation: float = 0.0  # sum of half the squared differences of neighbours, to which a trend adds little
    squares: float = 1.0  # sum of the squared weights

    def add(self, value: float, weight: float) -> None:
        self.variation += (value - self.newest) ** 2 / 2
        self.newest = value
        self.mean += weight * (value - self.mean)
        self.squares = (1 - weight) ** 2 * self.squares + weight**2
        self.num_steps += 1

    @property
    def error(self) -> float:
        # Of the variance of a step's mean (von Neumann et al. 1941), which includes that solutions of one problem are
        # alike.
        return inf if self.num_steps < MIN_STEPS else sqrt(self.variation / (self.num_steps - 1) * self.squares)


class StopRule:
    """
    Decides after each step, from its metrics, whether the phase ends.

    Args:
        prover: The planned steps, and the reward that determines the rule under `auto`.
        fixed: Means for a role that this phase does not train, such as `score/helpful_correct`, with
            `error/helpful_correct`, its standard error, and `num_scored/helpful_correct`.
        first_share: Share of the planned steps before the rule can fire, in [0, 1].
    Raises `ValueError` for an unknown rule, options that it does not take, or a `goodhart_window` longer than the
        phase.
    """

    def __init__(
        self,
        stopping: StoppingConfig,
        prover: ProverConfig,
        fixed: Means | None = None,
        *,
        first_share: float = FIRST_SHARE,
    ):
        self.config = stopping
        self.name = stopping.rule if stopping.rule != "auto" else load_reward(prover.reward).stop_rule
        self.first_step = first_share * prover.max_steps
        self.weight = stopping.newest_weight(prover.num_batches)
        self._averages: dict[str, _Average] = {}
        self._counts: dict[str, float] = {}
        self.fixed = dict(fixed or {})
        self._accuracies: deque[float] = deque(maxlen=stopping.accuracy_window(prover.num_batches))
        self._max_steps = prover.max_steps
        self._rule = self._goodhart if self.name == "goodhart" else load_rule(self.name)
        self._check_options()
        if self.name == "goodhart":
            self._check_window(prover.num_batches)

    @property
    def is_custom(self) -> bool:
        """Whether the rule is a custom one (`package.module:Name`)."""
        return ":" in self.name

    @property
    def means(self) -> dict[str, float]:
        """Moving averages, standard errors of those of scores, numbers of solutions, and `fixed`."""
        errors = {
            key.replace("score/", "error/"): average.error
            for key, average in self._averages.items()
            if key.startswith("score/")
        }
        smoothed = {key: average.mean for key, average in self._averages.items()}
        return {**smoothed, **errors, **self._counts, **self.fixed}

    def update(self, step: int, figures: Means) -> str | None:
        """
        Update the means by a step's metrics and return why the phase ends, if it does. A missing metric keeps its
        mean.
        """
        cells = {key: value for key, value in figures.items() if key.startswith(CELLS)}
        if not cells:
            return None  # this line of the log is not a training step
        for key, value in cells.items():
            if key in self._averages:
                self._averages[key].add(value, self.weight)
            else:
                self._averages[key] = _Average(value, value)
        for key, value in figures.items():
            if key.startswith(COUNT):
                self._counts[key] = self._counts.get(key, 0) + value
        accuracies = [cells[key] for key in ("accuracy/helpful", "accuracy/sneaky") if key in cells]
        self._accuracies.append(sum(accuracies) / len(accuracies))
        ends = step > self.first_step and self.ask(self.means, step)
        return f"{self.name} at step {step}" if ends else None

    def ask(self, means: Means, step: int) -> bool:
        """
        Call the rule with smoothed means.

        Raises `ExtensionError` if a custom rule raises an error, or does not return a boolean.
        """
        if not self.is_custom:
            return self._rule(means, self.config)
        asked = f"The stop rule `{self.name}` (`stopping.rule`), asked at step {step},"
        given = {**means, "step": step, "max_steps": self._max_steps}
        with running(asked):
            answer = self._rule(given, self.config, **self.config.options)
        if not isinstance(answer, bool | np.bool_):
            raise ExtensionError(f"{asked} returns {answer!r:.80}; it must return True or False.")
        return bool(answer)

    def _check_options(self) -> None:
        options = self.config.options
        if self.is_custom:
            check_arguments(self._rule, f"The stop rule `{self.name}`", INTERFACE, {}, self.config, **options)
        elif options:
            raise ValueError(
                f"The stop rule `{self.name}` takes no `stopping.options`, which are arguments for a custom rule; got "
                f"{options!r:.80}."
            )

    def _check_window(self, num_batches: int) -> None:
        window = self.config.goodhart_window
        if window is not None and window > num_batches:
            raise ValueError(
                f"`stopping.goodhart_window` is {window}, but a phase has {num_batches} batches (`prover.max_steps`),"
                f" so that the stop rule `goodhart` could never fire; set it to at most {num_batches}, or leave it out"
                " for a tenth."
            )

    def _goodhart(self, means: Means, config: StoppingConfig) -> bool:
        """Whether the prover's accuracy is low over a whole window (Kirchner et al. 2024)."""
        window = self._accuracies
        return len(window) == window.maxlen and sum(window) / len(window) < GOODHART_ACCURACY


class ParityClock:
    """Records when parity is first reached, whatever rule ends the phase."""

    def __init__(self, stopping: StoppingConfig, prover: ProverConfig, fixed: Means | None = None):
        self._rule = StopRule(replace(stopping, rule="parity", options={}), prover, fixed)
        self._num_steps = 0
        self._step: int | None = None

    def update(self, step: int, figures: Means) -> None:
        """Update by a step's metrics on clean labels."""
        reached = self._rule.update(step, figures)
        self._num_steps = max(self._num_steps, step)
        if reached and self._step is None:
            self._step = step

    def figures(self) -> dict[str, float]:
        """
        Return the record.

        Returns: `parity_step`, the first step with parity (missing if it was not reached); `parity_num_steps`, the
            number of steps; `parity_gap`, the smoothed mean score of helpful correct minus that of sneaky incorrect
            solutions at the end (missing if there were none).
        """
        means = self._rule.means
        helpful, sneaky = means.get("score/helpful_correct"), means.get("score/sneaky_incorrect")
        found = {
            "parity_step": self._step,
            "parity_num_steps": self._num_steps,
            "parity_gap": None if helpful is None or sneaky is None else helpful - sneaky,
        }
        return {name: value for name, value in found.items() if value is not None}


def load_rule(name: str) -> Rule:
    """Load a rule by name, or a custom one as `package.module:Name`. Raises `ValueError` if there is no such rule."""
    if ":" in name:
        return load_function(name, "stop rule", INTERFACE)
    if name not in STOP_RULES:
        known = suggest(name, ["auto", "goodhart", *STOP_RULES])
        raise ValueError(
            f"Unknown stop rule `{cut_to_line(name)}`. {known} Name a custom rule as `package.module:Name`."
        )
    return STOP_RULES[name]


def rehearse(rule: StopRule, roles: Sequence[str]) -> None:
    """
    Call a custom rule with synthetic means: first with all of them, then with those that exist in the first step.

    Raises `ExtensionError` if the rule raises an error, or does not return a boolean.
    """
    first = {key.format(role=role): 0.5 for role in roles for key in FIGURES_OF_EVERY_STEP}
    later = {key.format(role=role): 0.5 for role in roles for key in FIGURES_OF_SOME_STEPS}
    step = int(rule.first_step) + 1
    rule.ask({**first, **later}, step)
    try:
        rule.ask(first, step)
    except ExtensionError as err:
        raise ExtensionError(
            f"{err} It was called with {sorted(first)}: the other means are missing until a first such solution was"
            " judged. Read them by `means.get(key)`."
        ) from err
