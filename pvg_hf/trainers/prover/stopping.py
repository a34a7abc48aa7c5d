"""Rules that end a prover's training early."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pvg_hf.config.players import ProverConfig
from pvg_hf.config.sections import StoppingConfig
from pvg_hf.core.extensions import ExtensionError, check_arguments, cut_to_line, load_function, running, suggest
from pvg_hf.rewards import load_reward

Means = Mapping[str, float]

Rule = Callable[..., bool]

INTERFACE = "(means, config, **options) -> bool"  # of a rule; documented in docs/extensions.md

FIRST_SHARE = 0.1  # of the planned steps in which no rule fires

GOODHART_ACCURACY, GOODHART_WINDOW = 0.2, 80  # K24: below this over so many steps

MAX_FAILED_SHARE = 0.5  # of the sneaky solutions; where more of them fail, those left say little of the role

CELLS = ("score/", "accuracy/", "judged_accuracy/", "failed/")  # the figures of a step that are smoothed

FIGURES_OF_EVERY_STEP = ("accuracy/{role}", "failed/{role}")  # for each trained role

# Missing until a first solution of this kind was judged.
FIGURES_OF_SOME_STEPS = ("judged_accuracy/{role}", "score/{role}_correct", "score/{role}_incorrect")


def parity(means: Means, config: StoppingConfig) -> bool:
    """The sneaky role's incorrect solutions convince as much as the helpful role's correct ones (K24)."""
    sneaky, helpful = means.get("score/sneaky_incorrect"), means.get("score/helpful_correct")
    return sneaky is not None and helpful is not None and sneaky >= helpful - config.score_parity_threshold


def parity_and_incorrect(means: Means, config: StoppingConfig) -> bool:
    """Parity, and most sneaky solutions have not failed, and those are nearly always incorrect (KL26)."""
    incorrect = 1 - means.get("judged_accuracy/sneaky", 1.0)
    is_judged = means.get("failed/sneaky", 1.0) < MAX_FAILED_SHARE
    return parity(means, config) and is_judged and incorrect >= config.sneaky_incorrect_threshold


def max_steps(means: Means, config: StoppingConfig) -> bool:
    """Never: the planned steps end the phase."""
    return False


RULES: dict[str, Rule] = {"parity": parity, "parity_and_incorrect": parity_and_incorrect, "max_steps": max_steps}


class StopRule:
    """
    Decides from each step's figures whether the phase has reached its end.

    Args:
        stopping ([`StoppingConfig`]):
            Rule and thresholds.
        prover ([`ProverConfig`]):
            Planned steps, and the reward that `auto` goes by.
        fixed (`Mapping[str, float]`, *optional*):
            Means of a side that is not trained in this phase, such as `score/helpful_correct`.
    """

    def __init__(self, stopping: StoppingConfig, prover: ProverConfig, fixed: Means | None = None):
        self.config = stopping
        self.name = stopping.rule if stopping.rule != "auto" else load_reward(prover.reward).stop_rule
        self.first_step = FIRST_SHARE * prover.max_steps
        self.weight = stopping.newest_weight(prover.num_batches)
        self.means: dict[str, float] = {}
        self.fixed = dict(fixed or {})
        self._accuracies: deque[float] = deque(maxlen=GOODHART_WINDOW)
        self._max_steps = prover.max_steps
        self._rule = self._goodhart if self.name == "goodhart" else load_rule(self.name)
        self._check_options()

    @property
    def is_custom(self) -> bool:
        """Whether the rule is the user's `package.module:Name`."""
        return ":" in self.name

    def update(self, step: int, figures: Means) -> bool:
        """Take in a step's figures; True when the phase should end. A cell without a solution keeps its mean."""
        cells = {key: value for key, value in figures.items() if key.startswith(CELLS)}
        if not cells:
            return False  # a line of the log that is not a step's
        for key, value in cells.items():
            mean = self.means.get(key, value)
            self.means[key] = mean + self.weight * (value - mean)
        accuracies = [cells[key] for key in ("accuracy/helpful", "accuracy/sneaky") if key in cells]
        self._accuracies.append(sum(accuracies) / len(accuracies))
        return step > self.first_step and self.ask({**self.means, **self.fixed}, step)

    def ask(self, means: Means, step: int) -> bool:
        """
        Call the rule with smoothed means.

        Raises:
            ExtensionError: if a custom rule raises an error, or does not return a boolean.
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
                f"The stop rule `{self.name}` takes no `stopping.options`, which are arguments of a custom rule; got "
                f"{options!r:.80}."
            )

    def _goodhart(self, means: Means, config: StoppingConfig) -> bool:
        """The prover's accuracy is low over a whole window (K24)."""
        window = self._accuracies
        return len(window) == window.maxlen and sum(window) / len(window) < GOODHART_ACCURACY


def load_rule(name: str) -> Rule:
    """
    A rule by name, or the user's `package.module:Name`.

    Raises:
        ValueError: if there is no such rule.
    """
    if ":" in name:
        return load_function(name, "stop rule", INTERFACE)
    if name not in RULES:
        known = suggest(name, ["auto", "goodhart", *RULES])
        raise ValueError(
            f"Unknown stop rule `{cut_to_line(name)}`. {known} A custom rule is named as `package.module:Name`."
        )
    return RULES[name]


def rehearse(rule: StopRule, roles: Sequence[str]) -> None:
    """
    Call a custom rule with synthetic means: all of them, and those that exist before any solution was judged.

    Args:
        rule ([`StopRule`]):
            Its own state does not change.
        roles (`Sequence[str]`):
            The roles that are trained.

    Raises:
        ExtensionError: if the rule raises an error, or does not return a boolean.
    """
    first = {key.format(role=role): 0.5 for role in roles for key in FIGURES_OF_EVERY_STEP}
    later = {key.format(role=role): 0.5 for role in roles for key in FIGURES_OF_SOME_STEPS}
    step = int(rule.first_step) + 1
    rule.ask({**first, **later}, step)
    try:
        rule.ask(first, step)
    except ExtensionError as err:
        raise ExtensionError(
            f"{err} It was given {sorted(first)}: the other means are missing until a first such solution was judged. Read "
            "them by `means.get(key)`."
        ) from err
