"""An open sandbox: a pool of workers, and a cache of what they found."""

import hashlib
import json
import logging
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any

from pvg_hf.core.threads import call_in_threads
from pvg_hf.experimental.programs.sandbox.agreement import agrees_with_expected
from pvg_hf.experimental.programs.sandbox.backends import Backend, make_backends
from pvg_hf.experimental.programs.sandbox.cases import CallCase, Case, CaseOutcome, CaseResult, Limits
from pvg_hf.experimental.programs.sandbox.inside.values import encode_value
from pvg_hf.experimental.programs.sandbox.worker_process import WorkerProcess

logger = logging.getLogger(__name__)

START_AGAIN_SECONDS = 1.0
_ATTEMPTS = 2  # a job whose worker was lost is run again
_CACHED_BYTES = 1 << 26
_FAILED = "failed"
_HARMLESS = {"program": "def one():\n    return 1\n", "cases": [{"function": "one", "arguments": []}], "seed": 0}

_OUTCOMES = {"crashed": CaseOutcome.CRASHED, "timed_out": CaseOutcome.TIMED_OUT, _FAILED: CaseOutcome.HOST_FAILED}


@dataclass
class SandboxCounts:
    """
    What a sandbox has done so far.

    Args:
        programs (`int`): Programs that were run, each on its cases.
        seconds (`float`): Wall time of all cases, added up over workers.
        lost_workers (`int`): Workers that ended or hung and were replaced.
        outcomes (`Counter[str]`): Number of cases by outcome, with those from the cache.
    """

    programs: int = 0
    cache_hits: int = 0
    seconds: float = 0.0
    lost_workers: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


Job = tuple[str, Sequence[Case], Limits]


class Sandbox:
    """
    Runs untrusted programs; made by [`open_sandbox`].

    It is a context manager. Its workers end with it, and also if this process is killed.

    Args:
        num_workers (`int`, defaults to 1): Programs that run at the same time.
        cache (`bool`, defaults to `True`):
            Whether the results of a program on its cases are kept, and used when it is run on them again.

    Raises:
        ValueError: if `num_workers` is not positive or no worker starts.
    """

    def __init__(self, backend: Backend, *, num_workers: int = 1, cache: bool = True):
        if num_workers < 1:
            raise ValueError(f"`num_workers` is {num_workers}; it must be at least 1.")
        if backend.lacking is not None:
            raise ValueError(f"The sandbox `{backend.name}` does not work here: {backend.lacking}.")
        self.backend, self.num_workers = backend, num_workers
        self.counts = SandboxCounts()
        self._cache: OrderedDict[str, list[list[Any]]] | None = OrderedDict() if cache else None
        self._cached_bytes = 0
        self._lock = threading.Lock()
        self._idle: dict[int, list[WorkerProcess]] = defaultdict(list)  # by the hash seed that they were started with
        try:
            self._idle[0] = [WorkerProcess(backend)]
        except OSError as err:
            raise ValueError(str(err)) from err
        (result,) = self._attempt({**_HARMLESS, "limits": asdict(Limits())}) or [(_FAILED,)]
        if result[0] != "returned":
            self.close()
            raise ValueError(
                f"The sandbox `{backend.name}` does not work here: it cannot run a harmless program ({result})."
            )

    @property
    def isolation(self) -> str:
        """Name of the backend and what it guarantees."""
        return self.backend.isolation

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            workers = [worker for idle in self._idle.values() for worker in idle]
            self._idle.clear()
        for worker in workers:
            worker.close()

    def run(
        self, program: str, cases: Sequence[Case], limits: Limits | None = None, *, repeat: int = 0
    ) -> list[CaseResult]:
        """
        Run a program on cases.

        Args:
            program (`str`): Its text, in Python. Only the standard library can be imported.
            cases (`Sequence[Case]`): What it is run on, one after the other.
            repeat (`int`, defaults to 0):
                Number of the repetition. Each repetition is run and not taken from the cache of another, and has seeds
                for Python's `random` and for its hashes, on which the order of sets depends, that differ from those of
                the others: outputs that differ between repetitions show that a program is not deterministic.

        Returns:
            `list[CaseResult]`: one for each case, in their order.
        """
        return self.run_many([(program, cases, limits or Limits())], repeat=repeat)[0]

    def run_many(self, jobs: Sequence[Job], *, repeat: int = 0) -> list[list[CaseResult]]:
        """
        Run several programs, as many at a time as there are workers.

        Args:
            jobs (`Sequence[tuple[str, Sequence[Case], Limits]]`): Program, cases and limits of each.
            repeat (`int`, defaults to 0): As in [`run`].

        Returns:
            `list[list[CaseResult]]`: the results of each, in their order.
        """
        messages = [_job_message(program, cases, limits, repeat) for program, cases, limits in jobs]
        texts = (json.dumps([self.backend.name, message], sort_keys=True) for message in messages)
        keys = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        with self._lock:
            known = {key: self._recall(key) for key in keys}
        missing = {key: message for key, message in zip(keys, messages) if known[key] is None}
        found = call_in_threads(self._run_message, [(message,) for message in missing.values()], self.num_workers)
        known |= zip(missing, found)
        judged = [
            [_judge_case(case, *result) for case, result in zip(cases, known[key])]
            for (_, cases, _), key in zip(jobs, keys)
        ]
        with self._lock:
            for key, results in zip(missing, found):
                self._remember(key, results)
                self.counts.programs += 1
                self.counts.seconds += sum(seconds for *_, seconds in results)
            self.counts.cache_hits += len(jobs) - len(missing)
            self.counts.outcomes.update(result.outcome.value for results in judged for result in results)
        return judged

    def _run_message(self, message: dict[str, Any]) -> list[list[Any]]:
        """Run a job, in a new worker if its worker is lost."""
        if not message["cases"]:
            return []
        for number in range(_ATTEMPTS):
            # Not in an idle one again: several of these may have been lost without the program's doing.
            results = self._attempt(message, is_fresh=number > 0)
            if results is not None:
                return results
        works = self._attempt({**_HARMLESS, "limits": message["limits"]}, is_fresh=True)
        if works is not None and works[0][0] == "returned":  # so the program is what ended two workers
            return [["crashed", None, "ended its sandbox", 0.0] for _ in message["cases"]]
        logger.warning("The sandbox `%s` fails on a harmless program too; the cases are left open.", self.backend.name)
        return [[_FAILED, None, "the sandbox does not work", 0.0] for _ in message["cases"]]

    def _attempt(self, message: dict[str, Any], *, is_fresh: bool = False) -> list[list[Any]] | None:
        """Run a job in an idle worker, or in a new one if there is none or if it `is_fresh`; `None` if it is lost."""
        hash_seed = message["seed"]
        with self._lock:
            idle = self._idle[hash_seed]
            worker = idle.pop() if idle and not is_fresh else None
        try:
            worker = worker or WorkerProcess(self.backend, hash_seed)
        except OSError as err:
            logger.warning("%s", err)
            time.sleep(START_AGAIN_SECONDS)  # the machine may be out of memory or of processes for a moment
            return None
        results = None
        try:
            results = worker.run(message)
        finally:
            if results is None:  # it was lost, or this process was interrupted
                worker.close()
                with self._lock:
                    self.counts.lost_workers += 1
        if results is not None:
            with self._lock:
                self._idle[hash_seed].append(worker)
        return results

    def _recall(self, key: str) -> list[list[Any]] | None:
        if self._cache is None or key not in self._cache:
            return None
        self._cache.move_to_end(key)
        return self._cache[key]

    def _remember(self, key: str, results: list[list[Any]]) -> None:
        if self._cache is None or key in self._cache or any(kind == _FAILED for kind, *_ in results):
            return
        self._cache[key] = results
        self._cached_bytes += len(json.dumps(results))
        while self._cached_bytes > _CACHED_BYTES and len(self._cache) > 1:
            self._cached_bytes -= len(json.dumps(self._cache.popitem(last=False)[1]))


def _job_message(program: str, cases: Sequence[Case], limits: Limits, repeat: int) -> dict[str, Any]:
    """The job as it enters the sandbox: nothing of it says what is expected."""
    return {"program": program, "cases": [_inputs(case) for case in cases], "limits": asdict(limits), "seed": repeat}


def _inputs(case: Case) -> dict[str, Any]:
    if isinstance(case, CallCase):
        return {"function": case.function, "arguments": [encode_value(value) for value in case.arguments]}
    return {"stdin": case.stdin}


def _judge_case(case: Case, kind: str, output: str | None, detail: str, seconds: float) -> CaseResult:
    if kind in _OUTCOMES:
        return CaseResult(_OUTCOMES[kind], None, detail, seconds)
    agrees = agrees_with_expected(case, output)
    return CaseResult(CaseOutcome.PASSED if agrees else CaseOutcome.WRONG, output, detail, seconds)


def open_sandbox(backend: str = "auto", *, num_workers: int = 1, cache: bool = True) -> Sandbox:
    """
    Open a sandbox for untrusted programs.

    Args:
        backend (`str`, defaults to `"auto"`):
            How programs are isolated. `auto` takes the strongest that works on this machine; `Sandbox.isolation` names
            it. `none` has to be named, as it isolates nothing.
        num_workers (`int`, defaults to 1): Programs that run at the same time.
        cache (`bool`, defaults to `True`): Whether results are kept in memory, by program, cases, limits and backend.

    Returns:
        `Sandbox`: a context manager.

    Raises:
        ValueError: if the backend is unknown or does not work here.

    Example:

    ```python
    with open_sandbox() as sandbox:
        results = sandbox.run("def double(x):\\n    return 2 * x\\n", [CallCase("double", (21,), 42)], Limits())
        assert results[0].outcome is CaseOutcome.PASSED
    ```
    """
    backends = make_backends()
    if backend != "auto":
        if backend not in backends:
            raise ValueError(f"`{backend}` is not a sandbox; choose one of auto, {', '.join(backends)}.")
        return Sandbox(backends[backend], num_workers=num_workers, cache=cache)
    reasons = []
    for candidate in backends.values():
        if candidate.isolates:
            try:  # whether it works is found by starting it
                return Sandbox(candidate, num_workers=num_workers, cache=cache)
            except ValueError as err:
                reasons.append(f"- {err}")
    raise ValueError(
        "\n".join(
            [
                "No sandbox that isolates programs works here. `none` runs them with your rights; it has to be named.",
                *reasons,
            ]
        )
    )
