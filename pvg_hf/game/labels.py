"""Labels shown to the players: clean, randomly flipped, or from an imperfect checker."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.roles import ABSTENTIONS, SPURIOUS, Outcome, label_of
from pvg_hf.data.label_rates import rates_at
from pvg_hf.game.calls import CallLog, events_of_parts, open_ledger
from pvg_hf.game.context import PhaseContext
from pvg_hf.noise.draws import label_draw, solution_key
from pvg_hf.noise.imperfect_checker import ImperfectChecker, make_checker, recall_outcomes
from pvg_hf.noise.verdicts import Verdict

Row = dict[str, Any]

ROWS_PER_BATCH = 64  # rows that are graded or labelled before the next question whether to stop

CHECKED = frozenset({Outcome.VERIFIED, Outcome.PROOF_INVALID})  # failed solutions are not checked

_VERDICTS = {True: Verdict(True), False: Verdict(False)}


class LabelSource:
    """
    Labels of solutions that a player sees.

    Every process asks for the same rows in the order of the pool, so that labels depend neither on batches nor on processes.

    Args:
        context ([`PhaseContext`]):
            Context of the phase.
        output (`Path`):
            Folder for `events.jsonl`, the log of a checker's calls.
        is_noisy (`bool`):
            Whether `noise` applies to the player; without it, labels are clean.
        is_logged (`bool`, defaults to `True`):
            Whether a checker's calls are logged and paid from its budgets.

    Attributes:
        counts (`Counter[str]`):
            Counts of labels since the last [`take_counts`]: `feedback.count`, `feedback.noise_flagged.count` and
            `feedback.abstained.count`.
    """

    def __init__(self, context: PhaseContext, output: Path, *, is_noisy: bool, is_logged: bool = True):
        self.context = context
        noise = context.recipe.noise
        self.noise = noise if is_noisy and noise.is_any else None
        self.round_index = BASE_ROUND if context.phase.round_index is None else context.phase.round_index
        self.counts: Counter[str] = Counter()
        self._is_logged = is_logged
        self._log = CallLog(output, is_main=context.processes.is_main_process and is_logged)
        self._checker: ImperfectChecker | None = None

    @classmethod
    @contextmanager
    def for_pool(cls, context: PhaseContext, output: Path) -> Iterator["LabelSource"]:
        """Yield the labels that verifiers see while a phase writes the pool, and record their counts as metrics."""
        noise = context.recipe.noise
        source = cls(context, output, is_noisy=noise.is_for_verifier and not noise.flips_in_training)
        source.begin()
        try:
            yield source
        finally:
            source.close()
        if source.noise is not None:
            context.record(source.take_counts())

    @classmethod
    def for_decisions(cls, context: PhaseContext, output: Path, *, is_noisy: bool) -> "LabelSource | None":
        """
        Return the labels by which a phase decides on held-out solutions, or `None` if the recipe decides by clean ones.

        A checker's calls about these solutions are neither logged nor paid from its budgets.
        """
        if context.recipe.stopping.labels == "clean":
            return None
        source = cls(context, output, is_noisy=is_noisy, is_logged=False)
        source.begin()
        return source

    def begin(self, step: int = 0) -> None:
        """Start or resume at a training step. Calls that an earlier start made from this step on are dropped."""
        if self.noise is None or self.noise.checker is None:
            return
        config = self.noise.checker
        if not self._is_logged:
            self._checker = make_checker(config, seed=self.context.recipe.seed)
            return
        kept = self._log.cut(step)
        known = [*events_of_parts(self.context.folder, self.context.phase), *kept]
        self.context.processes.wait_for_everyone()
        ledger = open_ledger(self.context.folder, self.context.phase, config.budget, known)
        self._checker = make_checker(config, seed=self.context.recipe.seed, ledger=ledger, write=self._log.write)
        if ledger.is_limited:
            self._checker.remember(recall_outcomes(known))

    def __call__(self, rows: Sequence[Row], step: int | None = None) -> list[Outcome]:
        """
        Observed outcome of each solution.

        Args:
            rows (`Sequence[dict]`):
                Solutions: the problem's columns, `solution`, `correct` and `outcome`.
            step (`int`, *optional*):
                Step of a training.

        Returns:
            `list[Outcome]`: outcome of the checker's calls about each solution; see [`~pvg_hf.core.roles.label_of`].
        """
        verdicts = [None] * len(rows) if self._checker is None else self._verdicts(self._checker, rows)
        codes = [self._code(row, verdict, step) for row, verdict in zip(rows, verdicts, strict=True)]
        self._log.flush()
        self.counts["feedback.count"] += len(codes)
        self.counts["feedback.noise_flagged.count"] += sum(code in SPURIOUS for code in codes)
        self.counts["feedback.abstained.count"] += sum(code in ABSTENTIONS for code in codes)
        return codes

    def observed(self, rows: Sequence[Row], step: int) -> list[int | None]:
        """Labels for a trainer: 1, 0, or `None` if the checker abstained."""
        return [label_of(code) for code in self(rows, step)]

    def label(self, rows: Sequence[Row]) -> None:
        """
        Write noisy labels into rows of the pool.

        Only rows that verifiers are trained on get them. Held-out and test problems keep clean labels, for the evaluation.
        """
        if self.noise is None:
            return
        learned_from = [row for row in rows if row["part"] == "verifier"]
        for row, code in zip(learned_from, self(learned_from), strict=True):
            if code != row["outcome"]:
                row["label"], row["feedback"], row["is_noise_flagged"] = label_of(code), code.value, code in SPURIOUS

    def take_counts(self) -> dict[str, int]:
        """Return the counts, and reset them."""
        counts, self.counts = dict(self.counts), Counter()
        return counts

    def close(self) -> None:
        self._log.flush()
        if self._checker is not None:
            self._checker.close()

    def _code(self, row: Row, verdict: Verdict | None, step: int | None) -> Outcome:
        outcome = Outcome(row["outcome"])
        if self.noise is None or outcome not in CHECKED:
            return outcome
        if self._checker is None:
            return self._flip(row, outcome, step)
        place = {"round_index": self.round_index, "verdict": verdict, "step": step}
        return self._checker.check(row, row["solution"], **place).code

    def _flip(self, row: Row, outcome: Outcome, step: int | None) -> Outcome:
        # The draw depends only on problem and text: equal texts get the same label in all rounds with equal rates.
        rho0, rho1 = rates_at(self.noise, round_index=self.round_index, step=step or 0)
        draw = label_draw(self.context.recipe.seed, solution_key(row["problem_id"], row["solution"]))
        if row["correct"]:
            return Outcome.VERIFIER_SPURIOUS_FAIL if draw < rho1 else outcome
        return Outcome.VERIFIER_SPURIOUS_PASS if draw < rho0 else outcome

    def _verdicts(self, checker: ImperfectChecker, rows: Sequence[Row]) -> list[Verdict | None]:
        """Verdicts of the base checker; each process asks about its share, and all get all verdicts."""
        if checker.base is None:
            return [_VERDICTS[bool(row["correct"])] for row in rows]
        processes = self.context.processes
        asked = [index for index, row in enumerate(rows) if row["outcome"] in CHECKED and checker.can_begin(row)]
        mine = [
            (index, checker.verdict(rows[index], rows[index]["solution"]))
            for index in asked[processes.process_index :: processes.num_processes]
        ]
        verdicts: list[Verdict | None] = [None] * len(rows)
        for index, verdict in gather_object(mine):
            verdicts[index] = verdict
        return verdicts


def iterate_labelled(context: PhaseContext, rows: Iterable[Row], source: LabelSource | None) -> Iterator[list[Row]]:
    """Yield rows of the pool in batches, with labels from `source`, if any; a stop ends after the current batch."""
    left = iter(rows)
    while batch := list(islice(left, ROWS_PER_BATCH)):
        context.stop.check()
        if source is not None:
            source.label(batch)
        yield batch
