"""
Labels shown to the players: clean, randomly flipped, from an imperfect checker, whose calls are logged and paid, or
from people.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from pvg_hf.config.noise_section import BudgetConfig, NoiseConfig
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import Journal, write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.roles import ABSTENTIONS, SPURIOUS, Outcome, label_of
from pvg_hf.data.annotations import Scores, read_scores
from pvg_hf.data.label_rates import rates_at
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.noise.channel import routed_channel
from pvg_hf.noise.draws import label_draw, solution_key
from pvg_hf.noise.imperfect_checker import ImperfectChecker, make_checker, recall_outcomes
from pvg_hf.noise.routing import Ledger, Routes, Tier, make_routes
from pvg_hf.noise.telemetry import CallCounts, NoiseRate, count_calls, escalation_rates, noise_rates, read_events
from pvg_hf.noise.verdicts import Verdict
from pvg_hf.run.layout import CALL_SUMMARY, EVENTS, PhaseKey, RunFolder, partial_of
from pvg_hf.run.stored import CallSummary

CallEvent = Mapping[str, Any]


class CallLog:
    """Log of a checker's calls, `events.jsonl` in a phase's folder. Only the main process writes it."""

    def __init__(self, folder: Path, *, is_main: bool):
        self.path = folder / EVENTS
        self.is_main = is_main
        self._lines: list[str] = []

    def cut(self, step: int) -> list[CallEvent]:
        """Drop events of `step` and later steps, and events without a step; return the others."""

        def is_earlier(event: CallEvent) -> bool:
            return event.get("step", step) < step

        journal = Journal(self.path)
        kept: list[CallEvent] = [event for event in journal.scan()[0] if is_earlier(event)]
        if self.is_main:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            journal.keep(is_earlier)
        return kept

    def write(self, line: str) -> None:
        if self.is_main:
            self._lines.append(line)

    def flush(self) -> None:
        if self._lines:
            Journal(self.path).append_lines("".join(self._lines))
            self._lines.clear()


def open_ledger(folder: RunFolder, phase: PhaseKey, budget: BudgetConfig, known: Iterable[CallEvent]) -> Ledger:
    """Open the ledger of the checker's shared budgets, minus the spending of earlier phases."""
    if budget.per_round is None and budget.total is None:
        return Ledger()
    # Spending is computed from the events on disk, so that a resumed phase has the same budget left.
    own_cost = sum(event["cost"] for event in known)
    earlier = _earlier_costs(folder, phase)
    in_round = sum(cost for (round_index, _), cost in earlier.items() if round_index == phase.place[0])
    return Ledger(
        budget.per_round,
        budget.total,
        spent_in_round=in_round + own_cost,
        spent=sum(earlier.values()) + own_cost,
    )


def events_of_parts(folder: RunFolder, phase: PhaseKey) -> list[CallEvent]:
    """Events of the finished parts of a running phase, such as a role that is trained before the other."""
    parts = partial_of(phase.target(folder)).glob(f"[!.]*/{EVENTS}")
    return [event for part in sorted(parts) for event in read_events(part)]


def _earlier_costs(folder: RunFolder, phase: PhaseKey) -> dict[tuple[int, int], float]:
    """Costs of the phases before `phase`, by round and phase."""
    costs: dict[tuple[int, int], float] = {}
    for path in folder.call_summaries():
        summary = read_json(path, CallSummary)
        place = PhaseKey(summary.phase, summary.round).place
        if place < phase.place:
            costs[place] = summary.cost
    return costs


def summarize_calls(noise: NoiseConfig, phase: PhaseKey, output: Path) -> dict[str, Any]:
    """Write `checks.json` from a phase's checker events, and return metrics on them; empty if there are none."""
    # A phase with separate sub-phases has one log per sub-phase.
    logs = sorted([output / EVENTS, *output.glob(f"[!.]*/{EVENTS}")])
    logs = [log for log in logs if log.exists()]
    if not logs:
        return {}
    counts = count_calls(event for log in logs for event in read_events(log))
    assert noise.checker is not None  # it has made the calls
    routes = make_routes(noise.checker)
    rates = noise_rates(counts, _configured_tiers(routes, counts))
    escalations = escalation_rates(counts)
    summary = CallSummary(
        phase.name,
        phase.place[0],
        calls=counts.num_calls,
        codes=dict(counts.codes),
        flagged=counts.num_flagged,
        abstained=counts.num_abstentions,
        cost=counts.cost,
        duration_ms=counts.duration_ms,
        digest=counts.digest,
        rates=rates,
        escalations=escalations,
        channels={name: routed_channel(routing) for name, routing in _routings(routes).items()},
    )
    write_json(output / CALL_SUMMARY, asdict(summary))
    return dict(_metrics(counts, rates, escalations))


def _metrics(counts: CallCounts, rates: list[NoiseRate], escalations: dict[str, Figure]) -> Iterator[tuple[str, Any]]:
    yield "verifier.check.count", counts.num_calls
    yield "verifier.check.cost", counts.cost
    for one in rates:
        key = f"verifier.noise.{one.noise}.rate/{one.tier}/{one.slice}"
        yield key, one.value
        yield from ((f"{key}/{name}", vars(one)[name]) for name in ("low", "high", "n"))
        yield f"{key}/configured", one.configured
    for transition, figure in escalations.items():
        name = transition.replace("->", "_to_")
        yield f"verifier.escalation.count/{name}", figure.n
        yield f"verifier.escalation.success_rate/{name}", figure.value


def _configured_tiers(routes: Routes, counts: CallCounts) -> dict[tuple[str, str], Tier]:
    configured = {}
    for _, tier, of_slice in counts.trials:
        routing = routes.slices.get(of_slice, routes.routing)
        found = routing.tiers[routing.place_of(tier)]
        configured[tier, of_slice] = found if routing.noise_enabled else found.without_noise()
    return configured


def _routings(routes: Routes) -> dict[str, Any]:
    ways = {"all": routes.routing, **routes.slices}
    critical = {f"{name}, critical": way.critical() for name, way in ways.items()} if routes.critical else {}
    return ways | critical


Row = dict[str, Any]

ROWS_PER_BATCH = 64  # rows that are graded or labelled before the next question whether to stop

CHECKED = frozenset({Outcome.VERIFIED, Outcome.PROOF_INVALID})  # failed solutions are not checked

_VERDICTS = {True: Verdict(True), False: Verdict(False)}


class LabelSource:
    """
    Labels of solutions that a player sees.

    Every process asks for the same rows in the order of the pool, so that labels depend neither on batches nor on
    processes.

    Args:
        output: Folder for `events.jsonl`, the log of a checker's calls.
        is_noisy: Whether `noise` applies to the player; without it, labels are clean.
        is_logged: Whether a checker's calls are logged and paid from its budgets.
    """

    def __init__(self, context: PhaseContext, output: Path, *, is_noisy: bool, is_logged: bool = True):
        self.context = context
        noise = context.recipe.noise
        self.noise = noise if is_noisy and noise.is_any else None
        self.round_index = BASE_ROUND if context.phase.round_index is None else context.phase.round_index
        self.counts: Counter[str] = Counter()
        self._annotated: Scores = {}
        self._is_logged = is_logged
        self._log = CallLog(output, is_main=context.processes.is_main_process and is_logged)
        self._checker: ImperfectChecker | None = None

    @classmethod
    @contextmanager
    def for_pool(cls, context: PhaseContext, output: Path) -> Iterator["LabelSource"]:
        """Yield the labels that verifiers see while a phase writes the pool, and record their counts as metrics."""
        noise, annotations = context.recipe.noise, context.recipe.data.annotations
        source = cls(context, output, is_noisy=noise.is_for_verifier and not noise.flips_in_training)
        if annotations is not None:
            source._annotated = read_scores(annotations)
            source.counts["feedback.annotated.count"] = 0
        source.begin()
        try:
            yield source
        finally:
            source.close()
        if source.counts:
            context.record(source.take_counts())

    @classmethod
    def for_decisions(cls, context: PhaseContext, output: Path, *, is_noisy: bool) -> "LabelSource | None":
        """
        Return the labels by which a phase decides on held-out solutions, or `None` if the recipe decides by clean
        ones.

        A checker's calls about these are neither logged nor paid from its budgets.
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
        Outcome of the checker's calls about each solution (see [`~pvg_hf.core.roles.label_of`]).

        A row has the problem's columns, `solution`, `correct` and `outcome`.
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
        Write noisy labels, and those that people gave, into rows of the pool.

        Only rows that verifiers are trained on get them. Held-out and test problems keep clean labels, for the
        evaluation.
        """
        learned_from = [row for row in rows if row["part"] == "verifier"]
        codes = [Outcome(row["outcome"]) for row in learned_from] if self.noise is None else self(learned_from)
        for row, code in zip(learned_from, codes, strict=True):
            score = self._annotated.get((row["problem_id"], row["solution"]))
            if score is not None and row["outcome"] in CHECKED:
                code = _code_of(score, Outcome(row["outcome"]))
                self.counts["feedback.annotated.count"] += 1
            if code != row["outcome"]:
                row["label"], row["feedback"], row["is_noise_flagged"] = label_of(code), code.value, code in SPURIOUS

    def take_counts(self) -> dict[str, int]:
        """
        Return and reset the counts of `feedback.count`, `feedback.noise_flagged.count` and `feedback.abstained.count`.
        """
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
        check = self._checker.check
        return check(row, row["solution"], round_index=self.round_index, verdict=verdict, step=step).code

    def _flip(self, row: Row, outcome: Outcome, step: int | None) -> Outcome:
        assert self.noise is not None
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


def _code_of(score: float, outcome: Outcome) -> Outcome:
    """Outcome of a person's label, 0, 0.5 or 1, of a solution with a verdict."""
    if score == 0.5:
        return Outcome.UNDECIDED
    if score == label_of(outcome):
        return outcome
    return Outcome.VERIFIER_SPURIOUS_PASS if score == 1 else Outcome.VERIFIER_SPURIOUS_FAIL


def iterate_labelled(stop: StopRequest, rows: Iterable[Row], source: LabelSource | None) -> Iterator[list[Row]]:
    """Yield rows of the pool in batches, with labels from `source`, if any; a stop ends after the current batch."""
    left = iter(rows)
    while batch := list(islice(left, ROWS_PER_BATCH)):
        stop.check()
        if source is not None:
            source.label(batch)
        yield batch
