"""When a prover phase ends before its planned steps (protocols of stopping; K24, KL26)."""

from collections import deque
from collections.abc import Callable, Mapping

from pvg_hf.config.sections import ProverConfig, StoppingConfig
from pvg_hf.extensions import load_extension

Means = Mapping[str, float]
Rule = Callable[[Means, StoppingConfig], bool]

FIRST_SHARE = 0.1  # of the planned steps in which no rule fires
GOODHART_ACCURACY, GOODHART_WINDOW = 0.2, 80  # K24: below this over so many steps
MAX_FAILED_SHARE = 0.5  # of the sneaky solutions; where more of them fail, those left say little of the role
CELLS = ("score/", "accuracy/", "judged_accuracy/", "failed/")  # the figures of a step that are smoothed
DEFAULT_RULES = {"src": "parity", "standardized_src": "parity", "cgc": "parity_and_incorrect", "goodhart": "goodhart"}


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
        self.name = stopping.rule if stopping.rule != "auto" else DEFAULT_RULES.get(prover.reward, "max_steps")
        self.first_step = FIRST_SHARE * prover.max_steps
        self.weight = stopping.newest_weight(prover.num_batches)
        self.means: dict[str, float] = {}
        self.fixed = dict(fixed or {})
        self._accuracies: deque[float] = deque(maxlen=GOODHART_WINDOW)
        self._rule = self._goodhart if self.name == "goodhart" else load_rule(self.name)

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
        return step > self.first_step and self._rule({**self.means, **self.fixed}, self.config)

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
        return load_extension(name, "stop rule")
    if name not in RULES:
        raise ValueError(f"Unknown stop rule `{name}`; known are auto, goodhart, {', '.join(RULES)}, `module:Name`.")
    return RULES[name]
