"""The watchdog for a rise of false positives, and the figures that a prover phase records of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pvg_hf.config.sections import WatchdogConfig
from pvg_hf.core.files import Journal, write_json
from pvg_hf.core.roles import Role
from pvg_hf.evaluation.false_positive_rise import (
    FalsePositiveRise,
    WrongSolutions,
    false_positive_rises,
    is_collapse_expected,
)
from pvg_hf.game.context import PhaseContext
from pvg_hf.run.layout import FALSE_POSITIVES, WRONG_SOLUTIONS


class FalsePositiveWatch:
    """
    Counts accepted wrong solutions from the start of a prover's training, and compares them once.

    The alert is raised for the helpful role only, since the sneaky role is paid for mistakes that the verifier accepts, and
    only for a checker whose acceptance is paid: a prover learns to exploit no other.

    Args:
        config ([`~pvg_hf.config.sections.WatchdogConfig`]):
            The limit and the reaction.
        folder (`Path`):
            Folder of the training, in which the counts are written, so that a resumed training has them.
        alert (`Callable`):
            Called with `(kind, message)`.
        last_step (`int`):
            The last early step; see [`~pvg_hf.evaluation.false_positive_rise.last_early_step`].
        threshold (`float`):
            Score above which the verifier accepts a solution.
        has_checker (`bool`):
            Whether the reward uses observed labels instead of the grades.
        pays_scores (`bool`):
            Whether the reward may pay the helpful role's mistakes for their scores.
        is_main (`bool`, defaults to `True`):
            Whether this process writes.
    """

    def __init__(
        self,
        config: WatchdogConfig,
        folder: Path,
        alert: Callable[[str, str], None],
        *,
        last_step: int,
        threshold: float,
        has_checker: bool,
        pays_scores: bool,
        is_main: bool = True,
    ):
        self.config = config
        self.last_step = last_step
        self.threshold = threshold
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
        Count the wrong solutions of a batch.

        Args:
            step (`int`):
                Number of steps before the batch was written.
            graded (`Sequence[dict]`):
                The solutions of all processes: `problem_id`, `role`, `correct`, `failed`, `score`, and `label` (NaN
                without a label). Failed solutions are not counted.
        """
        if step > self.last_step or self.config.false_positives == "off":
            return
        wrong: Counter[tuple[str, str, str]] = Counter()
        accepted: Counter[tuple[str, str, str]] = Counter()
        for one in graded:
            if one["failed"] or one["correct"]:
                continue
            verdicts = {"verifier": one["score"] > self.threshold}
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

    def update(self, step: int) -> bool:
        """Compare once the last early step was trained on, and return whether the phase should end."""
        if step > self.last_step and not self._is_compared and self.config.false_positives != "off":
            self._is_compared = True
            self._compare(step)
        return self.has_risen and self.config.false_positives == "stop"

    def _compare(self, step: int) -> None:
        for found in false_positive_rises(self._rows):
            is_paid = found.role == Role.HELPFUL and (found.checker == "labels" or self.pays_scores)
            if not is_paid or not is_collapse_expected(found.rise, self.config.max_false_positive_rise):
                continue
            self.has_risen = True
            judge = "the labels accept" if found.checker == "labels" else "the verifier accepts"
            self._alert(
                "rise_of_false_positives",
                f"Step {step}: {judge} {found.early.value:.0%} of the helpful role's wrong solutions since the first step, "
                f"{found.before.value:.0%} before it. A rise of {self.config.max_false_positive_rise:.0%} or more is typical of "
                "a training that collapses.",
            )


def summarize_false_positives(context: PhaseContext, output: Path) -> None:
    """Write `false-positives.json` and record metrics, from the counts of a prover phase."""
    logs = sorted([output / WRONG_SOLUTIONS, *output.glob(f"[!.]*/{WRONG_SOLUTIONS}")])
    rises = false_positive_rises(row for log in logs if log.exists() for row in Journal(log).read())
    if not rises or not context.processes.is_main_process:
        return
    write_json(output / FALSE_POSITIVES, {"round": context.round_index, "rises": [rise.to_dict() for rise in rises]})
    context.record(dict(metric for found in rises for metric in _metrics(found)))


def _metrics(found: FalsePositiveRise) -> Iterator[tuple[str, float | None]]:
    key = f"false_positive_rise/{found.name}"
    yield key, found.rise.value
    yield from ((f"{key}/{name}", vars(found.rise)[name]) for name in ("low", "high", "n"))
    yield f"{key}/before", found.before.value
    yield f"{key}/early", found.early.value
