"""A checker that errs, times out and abstains as configured."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pvg_hf.config.noise_section import CheckerConfig
from pvg_hf.core.extensions import AskedSetting, refuse_withheld
from pvg_hf.core.roles import ACCEPTING, Outcome, label_of
from pvg_hf.noise.draws import call_draws, call_seed, solution_key
from pvg_hf.noise.error_buckets import ErrorBuckets
from pvg_hf.noise.processes import CommandChecker, WorkerChecker
from pvg_hf.noise.routing import Call, Ledger, Routes, Routing, Tier, can_pay, make_call, make_routes
from pvg_hf.noise.telemetry import Asked, event_line
from pvg_hf.noise.verdicts import BaseChecker, FunctionChecker, ProblemRow, Verdict


class VirtualClock:
    """A clock that counts waiting times without sleeping."""

    is_real = False

    def __init__(self) -> None:
        self.waited_ms = 0.0

    def wait(self, milliseconds: float) -> None:
        self.waited_ms += milliseconds


class RealClock(VirtualClock):
    """A clock that sleeps. Durations are then measured, so they differ between otherwise equal runs."""

    is_real = True

    def wait(self, milliseconds: float) -> None:
        super().wait(milliseconds)
        time.sleep(milliseconds / 1000)


_NO_VERDICT = Verdict(None)


@dataclass(frozen=True, slots=True)
class CheckerOutcome:
    """
    The result of checking a solution.

    Args:
        code ([`~pvg_hf.core.roles.Outcome`]):
            Outcome of the last call, which decides.
        noise (`str`, *optional*):
            Noise injected into the last call: `"timeout"`, `"spurious_fail"`, `"spurious_pass"`, or `None`.
        duration_ms (`float`), cost (`float`):
            Totals over all calls.
        attempts (`int`):
            Number of calls that were made.
        truth (`bool`, *optional*):
            Verdict of the base checker; `None` if it did not finish.
        calls (`tuple[Call, ...]`):
            All calls in order; the last one may have been over budget.
    """

    code: Outcome
    tier: str
    noise: str | None
    duration_ms: float
    cost: float
    attempts: int
    truth: bool | None
    detail: str | None
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, calls: tuple[Call, ...], *, truth: bool | None, error: str | None = None) -> "CheckerOutcome":
        """Summarise the calls for one solution; the last call decides."""
        last = calls[-1]
        return cls(
            code=last.code,
            tier=last.tier,
            noise=last.noise,
            duration_ms=sum([call.duration_ms for call in calls]),
            cost=sum([call.cost for call in calls]),
            # A call that was over budget is in the list but was not made.
            attempts=len(calls) - (last.code == Outcome.BUDGET_EXHAUSTED),
            truth=truth,
            detail=error if last.code == Outcome.VERIFIER_INTERNAL_ERROR else None,
            calls=calls,
        )

    @property
    def success(self) -> bool:
        """Whether the checker accepts the solution."""
        return self.code in ACCEPTING

    @property
    def label(self) -> int | None:
        """The label that a learner gets; `None` if the checker abstained."""
        return label_of(self.code)


class ImperfectChecker:
    """
    Simulates an imperfect grader: it adds errors, timeouts and abstentions to the verdicts of a base checker.

    An outcome depends on the seed, the round, the problem and the text only, not on the order of the questions or on
    other solutions, unless a shared budget is exhausted.

    Args:
        base (`Callable` or [`~pvg_hf.noise.verdicts.BaseChecker`], *optional*):
            Function `(problem, solution) -> bool`, called in this process; or a [`~pvg_hf.noise.CommandChecker`] or
            [`~pvg_hf.noise.WorkerChecker`], which can be stopped after their time budget. None if each question comes
            with its verdict.
        routes ([`Routes`], [`Routing`] or [`Tier`], *optional*):
            Tiers and when they are called; a single call of the tier `balanced` by default.
        clock ([`VirtualClock`] or [`RealClock`], *optional*):
            The virtual clock by default, which does not wait.
        ledger ([`Ledger`], *optional*):
            Budgets per round and in total.
        write (`Callable`, *optional*):
            Called with a line of JSON for each call, e.g. `file.write`.
        errors ([`~pvg_hf.noise.error_buckets.ErrorBuckets`], *optional*):
            Systematic errors of the base checker's verdicts.

    Raises:
        ExtensionError: from `check`, if the base checker returns something that is not a boolean.
        ValueError: from `check`, if it has neither a base checker nor a verdict.

    Example:

    ```python
    task = load_task("arithmetic")
    problem = task.problems("train")[0]
    checker = ImperfectChecker(lambda row, text: task.grade(row, text).correct, Tier("lean", timeout=0.1))
    checker.check(problem, problem["reference"]).label
    ```
    """

    def __init__(
        self,
        base: BaseChecker | Callable[[ProblemRow, str], bool] | None = None,
        routes: Routes | Routing | Tier | None = None,
        *,
        seed: int = 0,
        clock: VirtualClock | None = None,
        ledger: Ledger | None = None,
        write: Callable[[str], object] | None = None,
        errors: ErrorBuckets | None = None,
    ):
        routes = Routing((routes,)) if isinstance(routes, Tier) else routes
        self.routes = routes if isinstance(routes, Routes) else Routes(routes)
        self.base = FunctionChecker(base) if callable(base) else base
        self.seed = seed
        self.clock = clock or VirtualClock()
        self.ledger = ledger or Ledger()
        self.write = write
        self.errors = errors
        self._known: dict[tuple[int, int], CheckerOutcome] = {}

    def verdict(self, problem: ProblemRow, solution: str) -> Verdict:
        """Ask the base checker, with the largest time budget that a call about the solution can use."""
        if self.base is None:
            raise ValueError("This checker has no `base` to ask: pass one, or `verdict` with each question.")
        routing, _ = self.routes.of(problem)
        return self.base.ask(problem, solution, routing.longest_seconds)

    def check(
        self,
        problem: ProblemRow,
        solution: str,
        *,
        round_index: int = 0,
        verdict: Verdict | None = None,
        step: int | None = None,
    ) -> CheckerOutcome:
        """
        Check a solution.

        Args:
            problem (`Mapping`):
                The problem, with `problem_id` and the columns that the base checker, the slices and the condition
                `critical` need.
            round_index (`int`):
                The round. Equal texts of a problem have equal outcomes within a round.
            verdict ([`Verdict`], *optional*):
                Verdict of the base checker, if already known.
        """
        key = solution_key(problem["problem_id"], solution)
        known = self._known.get((round_index, key))
        if known is not None:
            return known
        self.ledger.enter(round_index)
        routing, slice_name = self.routes.of(problem)
        if verdict is None and self.can_begin(problem):
            verdict = self.verdict(problem, solution)
        if self.errors is not None and verdict is not None and verdict.passed is not None:
            passed = self.errors.judge(problem, solution, verdict.passed, round_index=round_index)
            verdict = verdict._replace(passed=passed)
        asked = Asked(problem["problem_id"], key, slice_name, round_index, step)
        # Without a verdict the budget is exhausted before the first call, so it is never used.
        outcome = self._call_tiers(asked, routing, verdict or _NO_VERDICT)
        if self.ledger.is_limited:  # otherwise a repeated text could be refused although it was paid for
            self._known[round_index, key] = outcome
        return outcome

    def can_begin(self, problem: ProblemRow) -> bool:
        """Whether the first call is within budget; if not, the base checker need not be asked."""
        routing, _ = self.routes.of(problem)
        first = routing.path[0]
        return can_pay(first, 0.0, routing.budget) and self.ledger.can_pay(first.cost)

    def remember(self, known: Mapping[tuple[int, int], CheckerOutcome]) -> None:
        """Add known outcomes by round and solution; their calls are not paid for again."""
        self._known.update(known)

    def close(self) -> None:
        """End the base checker's process, if any."""
        if self.base is not None:
            self.base.close()

    def _call_tiers(self, asked: Asked, routing: Routing, verdict: Verdict) -> CheckerOutcome:
        calls: list[Call] = []
        cost = 0.0
        for attempt, tier in enumerate(routing.path):
            seed = call_seed(self.seed, asked.round_index, asked.solution, attempt)
            call = self._call(tier, verdict, seed, cost, routing.budget)
            calls.append(call)
            cost += call.cost
            if self.write is not None:
                self.write(event_line(asked, call, verdict, attempt, seed, is_late=tier.is_late(verdict)))
            if call.code == Outcome.BUDGET_EXHAUSTED or not routing.escalates(call.code):
                break
        return CheckerOutcome.of(tuple(calls), truth=verdict.passed, error=verdict.error)

    def _call(self, tier: Tier, verdict: Verdict, seed: str, spent: float, budget: float | None) -> Call:
        if not (can_pay(tier, spent, budget) and self.ledger.can_pay(tier.cost)):
            return Call(tier.name, Outcome.BUDGET_EXHAUSTED, None, 0.0, 0.0)
        self.ledger.pay(tier.cost)  # before the call: a timeout costs as much
        call = make_call(tier, verdict, call_draws(seed), is_real=self.clock.is_real)
        if call.noise == "timeout" or not self.clock.is_real:  # the time of a real base checker has already passed
            self.clock.wait(call.duration_ms)
        return call


def make_checker(
    config: CheckerConfig, *, seed: int, ledger: Ledger | None = None, write: Callable[[str], object] | None = None
) -> ImperfectChecker:
    """Make the checker that a recipe's section describes."""
    clock = RealClock() if config.clock == "real" else VirtualClock()
    errors = None if config.errors is None else ErrorBuckets(config.errors, seed)
    base, routes = make_base(config), make_routes(config)
    return ImperfectChecker(base, routes, seed=seed, clock=clock, ledger=ledger, write=write, errors=errors)


def make_base(config: CheckerConfig) -> BaseChecker | None:
    """Return the checker without noise, or `None` for the task's grade, which is already known."""
    if config.base == "grade":
        return None
    if config.env:
        refuse_withheld([AskedSetting.of("noise.checker.env", config.env)])
    if config.base == "command":
        return CommandChecker(config.command, config.env)
    return WorkerChecker(config.base, config.env)


def recall_outcomes(events: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], CheckerOutcome]:
    """Recover outcomes, by round and [`~pvg_hf.noise.draws.solution_key`], from the events of their calls."""
    of_solution: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for event in events:
        of_solution.setdefault((event["round"], int(event["solution"], 16)), []).append(event)
    return {key: _outcome(of_one) for key, of_one in of_solution.items()}


def _outcome(events: list[Mapping[str, Any]]) -> CheckerOutcome:
    calls = tuple(
        Call(event["tier"], Outcome(event["code"]), event["noise"], event["duration_ms"], event["cost"])
        for event in events
    )
    return CheckerOutcome.of(calls, truth=events[-1]["truth"], error=events[-1].get("detail"))
