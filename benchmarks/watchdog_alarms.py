"""
How often the watchdogs of a prover phase are wrong, and what they miss:

    OMP_NUM_THREADS=1 python benchmarks/watchdog_alarms.py

Simulates phases of 50, 150 and 300 steps, each step with 8 groups of 8 solutions in each role, as in a recipe with the
default batch. Scores are normal with standard deviation 1, a quarter of the variance common to a group; half of the
solutions of each role are correct, and correct ones score 2 more on average. The figures of a step are those of
`role_metrics`, and the alerts come from `Watchdogs` with their defaults. Prints a Markdown table: the share of the
phases with an alert, with a 95 % interval.

Without a change (an alert is false):

- `stationary`: nothing changes.
- `blind verifier`: nothing changes, and correct solutions score as incorrect ones do, which is the worst case of the
  test of ranks.
- `valid share at its threshold`: a tenth of the sneaky solutions is answered and incorrect, those of a group all
  alike, which is the worst case of the test of a collapse.
- `steps that depend on each other`: the mean score of sneaky mistakes moves about its level with a standard deviation
  of .1 and a correlation of .5 between neighbouring steps, which the tests of trends and ranks allow for.
- `steps that hardly change`: the same with a standard deviation of .3 and a correlation of .9, as of a policy that
  learns slowly. This dependence does not show within short windows, so that false alerts are frequent.

With a change:

- `trend of D`: the mean score of sneaky mistakes rises evenly over the phase, by D in all.
- `late trend of D`: the same, from half of the phase on.
- `reversal`: from half of the phase on, incorrect solutions score .5 more than correct ones.
- `collapse to S`: from half of the phase on, only a share S of the sneaky solutions is answered and incorrect.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.core.figure import Figure, rate
from pvg_hf.core.seeding import derive_rng
from pvg_hf.game.watchdogs import Watchdogs

GROUPS, SIZE = 8, 8  # groups of a role in a step, and solutions of a group
BETWEEN_GROUPS = 0.25  # share of the scores' variance
THRESHOLD = 1.0  # of acceptance


@dataclass(frozen=True)
class Phase:
    """
    What holds in each step of a simulated phase.

    Args:
        sneaky_mistake, correct (`np.ndarray` of shape `(num_steps,)`):
            Mean score of sneaky incorrect solutions, and of all correct ones; helpful incorrect ones have mean 0.
        sneaky_incorrect (`np.ndarray` of shape `(num_steps,)`):
            Share of incorrect sneaky solutions.
        has_equal_groups (`bool`):
            Whether the sneaky solutions of a group are all correct or all incorrect.
    """

    sneaky_mistake: np.ndarray
    correct: np.ndarray
    sneaky_incorrect: np.ndarray
    has_equal_groups: bool = False


def make_phase(num_steps: int, **changes) -> Phase:
    """Return a phase without a change, but for `changes`."""
    level = np.zeros(num_steps)
    return Phase(**{"sneaky_mistake": level, "correct": level + 2, "sneaky_incorrect": level + 0.5, **changes})


def rise(num_steps: int, by: float, first: float = 0.0) -> np.ndarray:
    """Rise evenly from 0 to `by`, from the share `first` of the phase on."""
    return by * np.clip((np.linspace(0, 1, num_steps) - first) / (1 - first), 0, 1)


def wander(num_steps: int, rng: np.random.Generator, sd: float = 0.1, correlation: float = 0.5) -> np.ndarray:
    """Draw a stationary autoregressive series of order 1."""
    values = [rng.normal(0, sd)]
    while len(values) < num_steps:
        values.append(correlation * values[-1] + rng.normal(0, sd * (1 - correlation**2) ** 0.5))
    return np.array(values)


def late(num_steps: int, before: float, after: float) -> np.ndarray:
    """Return `before` in the first half of the phase, and `after` in the second."""
    return np.where(np.arange(num_steps) < num_steps // 2, before, after)


Case = Callable[[int, np.random.Generator], Phase]

WITHOUT_CHANGE: dict[tuple[str, str], Case] = {
    ("goodharting", "stationary"): lambda n, rng: make_phase(n),
    ("goodharting", "blind verifier"): lambda n, rng: make_phase(n, correct=np.zeros(n)),
    ("sneaky_collapse", "valid share at its threshold"): lambda n, rng: make_phase(
        n, sneaky_incorrect=np.full(n, 0.1), has_equal_groups=True
    ),
    ("goodharting", "steps that depend on each other"): lambda n, rng: make_phase(n, sneaky_mistake=wander(n, rng)),
    ("goodharting", "steps that hardly change"): lambda n, rng: make_phase(
        n, sneaky_mistake=wander(n, rng, sd=0.3, correlation=0.9)
    ),
}

WITH_CHANGE: dict[tuple[str, str], Case] = {
    ("goodharting", "trend of .25"): lambda n, rng: make_phase(n, sneaky_mistake=rise(n, 0.25)),
    ("goodharting", "trend of .5"): lambda n, rng: make_phase(n, sneaky_mistake=rise(n, 0.5)),
    ("goodharting", "trend of 1"): lambda n, rng: make_phase(n, sneaky_mistake=rise(n, 1.0)),
    ("goodharting", "late trend of 1"): lambda n, rng: make_phase(n, sneaky_mistake=rise(n, 1.0, first=0.5)),
    ("goodharting", "reversal"): lambda n, rng: make_phase(n, correct=late(n, 2.0, -0.5)),
    ("sneaky_collapse", "collapse to .05"): lambda n, rng: make_phase(n, sneaky_incorrect=late(n, 0.5, 0.05)),
    ("sneaky_collapse", "collapse to .02"): lambda n, rng: make_phase(n, sneaky_incorrect=late(n, 0.5, 0.02)),
    ("sneaky_collapse", "collapse to 0"): lambda n, rng: make_phase(n, sneaky_incorrect=late(n, 0.5, 0.0)),
}


def simulate(phase: Phase, rng: np.random.Generator) -> set[str]:
    """Draw the solutions of a phase, and return the kinds of its alerts."""
    kinds: set[str] = set()
    watchdogs = Watchdogs(
        WatchdogConfig(), lambda kind, message: kinds.add(kind), num_steps=len(phase.correct), sneaky_groups=GROUPS
    )
    is_correct, scores = draw_solutions(phase, rng)
    for step, figures in enumerate(step_figures(is_correct, scores), start=1):
        watchdogs.update(step, figures)
    return kinds


def draw_solutions(phase: Phase, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """
    Return correctness and scores of shape `(num_steps, 2 * GROUPS, SIZE)`: the helpful groups, and then the sneaky
    ones.
    """
    shape = (len(phase.correct), 2 * GROUPS, SIZE)
    sneaky = np.arange(2 * GROUPS)[:, None] >= GROUPS
    chance = rng.random(shape)
    if phase.has_equal_groups:
        chance = np.repeat(chance[:, :, :1], SIZE, axis=2)
    is_correct = chance >= np.where(sneaky, phase.sneaky_incorrect[:, None, None], 0.5)
    mistake = np.where(sneaky, phase.sneaky_mistake[:, None, None], 0.0)
    means = np.where(is_correct, phase.correct[:, None, None], mistake)
    of_group = rng.normal(0, BETWEEN_GROUPS**0.5, (*shape[:2], 1))
    return is_correct, means + of_group + rng.normal(0, (1 - BETWEEN_GROUPS) ** 0.5, shape)


def step_figures(is_correct: np.ndarray, scores: np.ndarray) -> list[dict[str, float]]:
    """Compute the figures that watchdogs read, as `role_metrics` does, for all steps at once."""
    sneaky_mistake, helpful_right = ~is_correct[:, GROUPS:], is_correct[:, :GROUPS]
    sneaky, helpful = scores[:, GROUPS:], scores[:, :GROUPS]
    # (num_steps,) each; NaN where a step has no solution of the kind.
    with np.errstate(invalid="ignore", divide="ignore"):
        num_mistakes = sneaky_mistake.sum(axis=(1, 2))
        of_mistakes = (sneaky * sneaky_mistake).sum(axis=(1, 2)) / num_mistakes
        of_right = (helpful * helpful_right).sum(axis=(1, 2)) / helpful_right.sum(axis=(1, 2))
        columns = {
            "valid_sneaky": sneaky_mistake.mean(axis=(1, 2)),
            "exploit_rate": ((sneaky > THRESHOLD) & sneaky_mistake).sum(axis=(1, 2)) / num_mistakes,
            "score_gap": of_right - of_mistakes,
            "score_correctness_correlation": _rank_correlations(
                scores.reshape(len(scores), -1), is_correct.reshape(len(scores), -1)
            ),
        }
    rows = zip(*columns.values(), strict=True)
    return [{k: float(v) for k, v in zip(columns, row, strict=True) if not np.isnan(v)} for row in rows]


def _rank_correlations(scores: np.ndarray, is_correct: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of scores and correctness in each row; NaN in a row with one class."""
    ranks = rankdata(scores, axis=1)
    first, second = (values - values.mean(axis=1, keepdims=True) for values in (ranks, is_correct.astype(float)))
    return (first * second).sum(axis=1) / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))


def alarm_rate(kind: str, case: Case, num_steps: int, num_phases: int, *seed: int | str) -> Figure:
    """Share of the phases of a case with an alert of a kind, with a Wilson interval."""
    num_alarms = 0
    for number in range(num_phases):
        rng = derive_rng(*seed, num_steps, number)
        num_alarms += kind in simulate(case(num_steps, rng), rng)
    return rate(num_alarms, num_phases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-phases", type=int, default=1000, help="simulated phases per cell")
    parser.add_argument("--steps", type=int, nargs="+", default=[50, 150, 300], help="lengths of a phase")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| kind of alert | phase |", *(f"{num_steps} steps |" for num_steps in options.steps))
    print("| --- " * (2 + len(options.steps)) + "|")
    for (kind, name), case in {**WITHOUT_CHANGE, **WITH_CHANGE}.items():
        cells = [alarm_rate(kind, case, n, options.num_phases, options.seed, name) for n in options.steps]
        print(f"| `{kind}` | {name} |", *(f"{cell} |" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
