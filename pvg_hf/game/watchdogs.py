"""Watchdogs of a prover phase detect a collapsed sneaky role and a gamed verifier; a short training recovers the sneaky role."""

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from datasets import Dataset
from scipy.stats import linregress

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.role_figures import has_failed
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.training import fine_tune_player

Alert = Callable[[str, str], None]

SIGNIFICANT = 2.0  # standard errors

SUPERVISED_STEPS, BATCH_SIZE = 20, 16  # of the recovery


class Watchdogs:
    """
    Monitors each step's figures over a window. An alert of each kind is raised at most once per phase.

    Args:
        config ([`WatchdogConfig`]):
            Window, thresholds and reactions.
        alert (`Callable`):
            Called with `(kind, message)`.
        fixed (`Mapping[str, float]`, *optional*):
            Means of a role that is not trained in this phase; its `score/helpful_correct` is used for the score gap.
    """

    def __init__(self, config: WatchdogConfig, alert: Alert, fixed: Mapping[str, float] | None = None):
        self.config = config
        self.has_collapsed = False
        self.is_goodharting = False
        self._alert = alert
        self._fixed = dict(fixed or {})
        self._windows: dict[str, deque[float]] = {}

    def update(self, step: int, figures: Mapping[str, float]) -> bool:
        """Add a step's figures, and return whether the phase should end."""
        figures = self._add_gap(figures)
        for key in ("valid_sneaky", "score_gap", "exploit_rate", "score_correctness_correlation"):
            if key in figures:
                self._windows.setdefault(key, deque(maxlen=self.config.window)).append(figures[key])
        self._watch_collapse(step)
        self._watch_goodharting(step)
        collapse_ends = self.has_collapsed and self.config.collapse_recovery != "none"
        return collapse_ends or (self.is_goodharting and self.config.goodharting == "stop")

    def _add_gap(self, figures: Mapping[str, float]) -> Mapping[str, float]:
        """Add the score gap to a step's figures if the helpful side is fixed and the step has only the sneaky side."""
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
        # Goodharting: the gap shrinks and the verifier accepts more mistakes, both significantly.
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
        """Figures of a full window; `None` if it is not full yet."""
        window = self._windows.get(key, ())
        return np.array(window) if len(window) == self.config.window else None


def _trend(values: np.ndarray) -> float:
    """Slope divided by its standard error; 0 if the window is too short or constant."""
    if len(values) < 3 or np.ptp(values) == 0:
        return 0.0
    fit = linregress(np.arange(len(values)), values)
    return float(fit.slope / max(fit.stderr, 1e-12))


def fine_tune_on_incorrect(context: PhaseContext, model, tokenizer) -> None:
    """Fine-tune `model` in place on the pool's incorrect solutions (without failed ones), with sneaky prompts."""
    problems = context.problems.parts["verifier"]
    files = context.folder.training_pools(context.round_index)
    number = SUPERVISED_STEPS * BATCH_SIZE * context.processes.num_processes
    places = {problem_id: place for place, problem_id in enumerate(problems["problem_id"])}
    rows = [
        {
            "prompt": context.problems.prompt(problems[places[row["problem_id"]]], Role.SNEAKY, tokenizer),
            "completion": row["solution"],
        }
        for row in _draw_incorrect(files, number, context.seed("recovery", "solutions"))
    ]
    if not rows:
        context.alert("sneaky_collapse", "The pool has no incorrect solution for the recovery.")
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


def _draw_incorrect(files: list[Path], number: int, seed: int) -> Dataset:
    """Draw `number` incorrect solutions of the pool in `files`, or all if there are fewer."""
    columns = ["problem_id", "solution", "correct", "outcome"]
    pool = load_pool(files, columns, parts=("verifier",))
    # Only these two columns are loaded into memory; the texts of a large pool stay on disk.
    kinds = pool.select_columns(["correct", "outcome"]).to_pandas()
    incorrect = np.flatnonzero(~kinds["correct"] & ~has_failed(kinds))
    drawn = derive_rng(seed).choice(incorrect, min(len(incorrect), number), replace=False)
    return pool.select(np.sort(drawn))
