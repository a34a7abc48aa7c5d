"""A checker that errs, hangs and abstains as configured."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pvg_hf.config.noise import CheckerConfig
from pvg_hf.core.extensions import NamedCode, refuse_withheld
from pvg_hf.core.roles import ACCEPTING, SPURIOUS, Outcome, label_of
from pvg_hf.noise.draws import check_draws, check_path, solution_key
from pvg_hf.noise.ledger import Ledger
from pvg_hf.noise.processes import CommandChecker, WorkerChecker
from pvg_hf.noise.routing import Call, Routes, Routing, Tier, can_pay, make_call, make_routes
from pvg_hf.noise.telemetry import Asked, event_line
from pvg_hf.noise.verdicts import BaseChecker, FunctionChecker, Problem, Verdict


class VirtualClock:
    """
    Counts the milliseconds that are waited for and sleeps not at all.

    Attributes:
        waited_ms (`float`):
            All that was waited for.
    """

    is_real = False

    def __init__(self) -> None:
        self.waited_ms = 0.0

    def wait(self, milliseconds: float) -> None:
        self.waited_ms += milliseconds


class RealClock(VirtualClock):
    """Sleeps. What a check took is then measured, so that two equal runs differ in their durations."""

    is_real = True

    def wait(self, milliseconds: float) -> None:
        super().wait(milliseconds)
        time.sleep(milliseconds / 1000)


_NO_VERDICT = Verdict(None)


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """
    What the check of a solution came to.

    Args:
        code ([`~pvg_hf.core.roles.Outcome`]):
            Of the last call, whose word counts.
        tier (`str`):
            Of the last call.
        noise (`str`, *optional*):
            What was injected into the last call: `"timeout"`, `"spurious_fail"`, `"spurious_pass"`, or `None`.
        duration_ms (`float`), cost (`float`):
            Of all calls together.
        attempts (`int`):
            Calls that were made.
        truth (`bool`, *optional*):
            What the base checker says; `None` where it came to no end.
        detail (`str`, *optional*):
            The text of an internal error.
        calls (`tuple[Call, ...]`):
            One after the other; the last may be one that could not be paid for.
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
    def of(cls, calls: tuple[Call, ...], *, truth: bool | None, error: str | None = None) -> "CheckOutcome":
        """What the calls for one solution come to, the last of which has the last word."""
        last = calls[-1]
        return cls(
            code=last.code,
            tier=last.tier,
            noise=last.noise,
            duration_ms=sum([call.duration_ms for call in calls]),
            cost=sum([call.cost for call in calls]),
            attempts=len(calls) - (last.code == Outcome.BUDGET_EXHAUSTED),
            truth=truth,
            detail=error if last.code == Outcome.VERIFIER_INTERNAL_ERROR else None,
            calls=calls,
        )

    @property
    def success(self) -> bool:
        """Whether the check accepts the solution."""
        return self.code in ACCEPTING

    @property
    def label(self) -> int | None:
        """What a learner is told; `None` where the check abstained."""
        return label_of(self.code)

    @property
    def is_flagged(self) -> bool:
        """Whether what is claimed is not so, by injected noise."""
        return self.code in SPURIOUS


class ImperfectChecker:
    """
    A grader as a noisy channel. An outcome follows from the seed, the round, the problem and the text alone: not from the
    order of the questions, nor from who else is asked, except where a budget that solutions share runs out.

    Args:
        base (`Callable` or [`~pvg_hf.noise.verdicts.BaseChecker`], *optional*):
            `(problem, solution) -> bool`, called in this process; or a [`~pvg_hf.noise.CommandChecker`] or
            [`~pvg_hf.noise.WorkerChecker`], which are stopped at their time budget. None, if each question comes with its
            verdict.
        routes ([`Routes`], [`Routing`] or [`Tier`], *optional*):
            Tiers and when they are asked; one call of the tier `balanced` by default.
        seed (`int`):
            Of the noise.
        clock ([`VirtualClock`] or [`RealClock`], *optional*):
            The virtual one by default, which waits for nothing.
        ledger ([`Ledger`], *optional*):
            Budgets of a round and in all.
        write (`Callable`, *optional*):
            Is given a line of JSON for each call, e.g. `file.write`.

    Raises:
        TypeError: when asked, if the base checker returns something that is not a boolean.

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
        base: BaseChecker | Callable[[Problem, str], bool] | None = None,
        routes: Routes | Routing | Tier | None = None,
        *,
        seed: int = 0,
        clock: VirtualClock | None = None,
        ledger: Ledger | None = None,
        write: Callable[[str], object] | None = None,
    ):
        routes = Routing((routes,)) if isinstance(routes, Tier) else routes
        self.routes = routes if isinstance(routes, Routes) else Routes(routes)
        self.base = FunctionChecker(base) if callable(base) else base
        self.seed = seed
        self.clock = clock or VirtualClock()
        self.ledger = ledger or Ledger()
        self.write = write
        self._known: dict[tuple[int, int], CheckOutcome] = {}

    def verdict(self, problem: Problem, solution: str) -> Verdict:
        """What the base checker says, within the largest time budget that the solution's check may come to."""
        assert self.base is not None
        routing, _ = self.routes.of(problem)
        return self.base.ask(problem, solution, routing.longest_seconds)

    def check(
        self,
        problem: Problem,
        solution: str,
        *,
        round_index: int = 0,
        verdict: Verdict | None = None,
        step: int | None = None,
    ) -> CheckOutcome:
        """
        Args:
            problem (`Mapping`):
                With `problem_id`, and what the base checker, the slices and the condition `critical` read.
            solution (`str`):
                The text.
            round_index (`int`):
                Equal texts of a problem have equal outcomes within a round.
            verdict ([`Verdict`], *optional*):
                Of the base checker, where it is known already.
            step (`int`, *optional*):
                Of a training, for the events.
        """
        key = solution_key(problem["problem_id"], solution)
        known = self._known.get((round_index, key))
        if known is not None:
            return known
        self.ledger.enter(round_index)
        routing, slice_name = self.routes.of(problem)
        if verdict is None and self.can_begin(problem):
            verdict = self.verdict(problem, solution)
        asked = Asked(problem["problem_id"], key, slice_name, round_index, step)
        outcome = self._check(asked, routing, verdict or _NO_VERDICT)
        if self.ledger.is_limited:  # or a text that was paid for could be refused the next time
            self._known[round_index, key] = outcome
        return outcome

    def can_begin(self, problem: Problem) -> bool:
        """Whether the first call can be paid for; if not, there is no need of the base checker's verdict."""
        routing, _ = self.routes.of(problem)
        first = routing.path[0]
        return can_pay(first, 0.0, routing.budget) and self.ledger.can_pay(first.cost)

    def remember(self, known: Mapping[tuple[int, int], CheckOutcome]) -> None:
        """Outcomes by round and solution, of checks that are not to be paid for again."""
        self._known.update(known)

    def close(self) -> None:
        """End the base checker's process, if it has one."""
        if self.base is not None:
            self.base.close()

    def _check(self, asked: Asked, routing: Routing, verdict: Verdict) -> CheckOutcome:
        calls: list[Call] = []
        cost = 0.0
        for attempt, tier in enumerate(routing.path):
            path = check_path(self.seed, asked.round_index, asked.solution, attempt)
            call = self._call(tier, verdict, path, cost, routing.budget)
            calls.append(call)
            cost += call.cost
            if self.write is not None:
                self.write(event_line(asked, call, verdict, attempt, path, is_late=tier.is_late(verdict)))
            if call.code == Outcome.BUDGET_EXHAUSTED or not routing.escalates(call.code):
                break
        return CheckOutcome.of(tuple(calls), truth=verdict.passed, error=verdict.error)

    def _call(self, tier: Tier, verdict: Verdict, path: str, spent: float, budget: float | None) -> Call:
        if not (can_pay(tier, spent, budget) and self.ledger.can_pay(tier.cost)):
            return Call(tier.name, Outcome.BUDGET_EXHAUSTED, None, 0.0, 0.0)
        self.ledger.pay(tier.cost)
        call = make_call(tier, verdict, check_draws(path), is_real=self.clock.is_real)
        if call.noise == "timeout" or not self.clock.is_real:  # what a base checker took has passed already
            self.clock.wait(call.duration_ms)
        return call


def make_checker(
    config: CheckerConfig,
    *,
    seed: int,
    ledger: Ledger | None = None,
    write: Callable[[str], object] | None = None,
) -> ImperfectChecker:
    """
    Return the checker that a recipe's section describes.

    Args:
        config ([`~pvg_hf.config.noise.CheckerConfig`]):
            The section.
        seed (`int`), ledger ([`Ledger`], *optional*), write (`Callable`, *optional*):
            As in [`ImperfectChecker`].
    """
    clock = RealClock() if config.clock == "real" else VirtualClock()
    return ImperfectChecker(make_base(config), make_routes(config), seed=seed, clock=clock, ledger=ledger, write=write)


def make_base(config: CheckerConfig) -> BaseChecker | None:
    """Return the checker behind the noise, or `None` for the task's own grade, which is known already."""
    if config.base == "grade":
        return None
    if config.env:
        refuse_withheld([NamedCode.of("noise.checker.env", config.env)])
    if config.base == "command":
        return CommandChecker(config.command, config.env)
    return WorkerChecker(config.base, config.env)


def recall_outcomes(events: Iterable[Mapping[str, Any]]) -> dict[tuple[int, int], CheckOutcome]:
    """
    Args:
        events (`Iterable[Mapping]`):
            As they were written.

    Returns:
        `dict[tuple[int, int], CheckOutcome]`: by round and [`~pvg_hf.noise.draws.solution_key`].
    """
    of_solution: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for event in events:
        of_solution.setdefault((event["round"], int(event["solution"], 16)), []).append(event)
    return {key: _outcome(of_one) for key, of_one in of_solution.items()}


def _outcome(events: list[Mapping[str, Any]]) -> CheckOutcome:
    calls = tuple(
        Call(event["tier"], Outcome(event["code"]), event["noise"], event["duration_ms"], event["cost"])
        for event in events
    )
    return CheckOutcome.of(calls, truth=events[-1]["truth"], error=events[-1].get("detail"))
