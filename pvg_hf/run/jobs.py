"""
Runs independent jobs, such as the games of a sweep: in this process, in several, or on any executor.

A job whose result exists is skipped, so that a stopped command resumes with the others.
"""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pvg_hf.core.extensions import load_function
from pvg_hf.core.units import show_seconds
from pvg_hf.run.console import quiet_libraries, set_up_logging
from pvg_hf.run.environment import num_cores
from pvg_hf.run.layout import RunFolder

logger = logging.getLogger(__name__)

MAX_WORKERS = 8  # by default: each worker holds the models of a game


@dataclass(frozen=True)
class Job:
    """
    A part of a larger work.

    `run` may return a few words about the result for the log. It must be picklable to run in another process.
    """

    name: str  # in log and errors; different for each job
    run: Callable[[], str | None]
    is_done: Callable[[], bool]  # whether the result exists; the job is then skipped
    needs: tuple[str, ...] = ()  # names of the jobs that must be done before


@dataclass(frozen=True)
class JobFolder:
    """
    Folder of a command that runs jobs, `OUTPUT_DIR/NAME`: its recipe, the results of the jobs, and what is made of
    them.
    """

    root: Path

    @property
    def recipe(self) -> Path:
        """The recipe that the command was started with."""
        return self.root / "sweep.yaml"

    @property
    def summary(self) -> Path:
        return self.root / "summary.md"

    @property
    def plots(self) -> Path:
        return self.root / "plots"

    def result(self, name: str) -> Path:
        """Result file of a job, by the last part of the file's name; the job is done if it exists."""
        return self.root / "cells" / f"{name}.json"

    def run(self, name: str) -> RunFolder:
        """Folder of a run that a job plays."""
        return RunFolder(self.root / "runs" / name)


class JobsFailedError(RuntimeError):
    """
    Some jobs of `num_jobs` failed, or their worker was killed. The results of the others are kept.

    `failed` has the error of each of them, by name. A job that needs a failed one has its error.
    """

    def __init__(self, failed: dict[str, Exception], num_jobs: int):
        self.failed, self.num_jobs = failed, num_jobs
        names: dict[str, list[str]] = {}
        for name, error in failed.items():
            names.setdefault(str(error), []).append(name)
        reasons = "\n".join(f"- {'; '.join(of_error)}: {error}" for error, of_error in names.items())
        super().__init__(
            f"{len(failed)} of {num_jobs} jobs have no result:\n{reasons}\nThe results of the others are kept; the"
            " same command tries these again."
        )

    def __reduce__(self):
        return type(self), (self.failed, self.num_jobs)


# Errors that concern a single job; any other ends the command.
JOB_ERRORS = (ValueError, FloatingPointError, JobsFailedError)


def run_jobs(jobs: Sequence[Job], executor: Executor | None = None, *, num_workers: int = 1) -> None:
    """
    Run all jobs that are not done, each after those that it needs, and log the outcome of each with the time that is
    left.

    Args:
        executor: Runs them, as many at a time as it can; it is not shut down. Its processes must share this machine's
            files.
        num_workers: Without an executor: number of processes, which share the cores. With 1, jobs run in this process.

    Raises `JobsFailedError` if jobs failed, after all others are done; or at once if a worker was killed.
    """
    done = {job.name for job in jobs if job.is_done()}
    waiting = [job for job in jobs if job.name not in done]
    total, started = len(waiting), time.monotonic()
    failed: dict[str, Exception] = {}
    running: dict[Future, Job] = {}
    if done:
        logger.info("%d of %d jobs are done", len(done), len(jobs))

    def broken(*lost: Job) -> JobsFailedError:
        killed = RuntimeError("a worker was killed, perhaps because memory ran out; give fewer `--workers`")
        names = [job.name for job in (*running.values(), *lost)]
        return JobsFailedError(failed | dict.fromkeys(names, killed), len(jobs))

    def end(job: Job, outcome: str) -> None:
        number = total - len(waiting) - len(running)
        left = (time.monotonic() - started) / number * (total - number)
        logger.info("%d/%d %s: %s; about %s left", number, total, job.name, outcome, show_seconds(left))

    with nullcontext(executor) if executor is not None else _local_executor(num_workers) as pool:
        while waiting or running:
            # One at a time: each may make another one fail that needs it.
            while job := next((job for job in waiting if not failed.keys().isdisjoint(job.needs)), None):
                waiting.remove(job)
                failed[job.name] = next(failed[name] for name in job.needs if name in failed)
                end(job, f"no result: {failed[job.name]}")
            ready = next((job for job in waiting if done.issuperset(job.needs)), None)
            if ready is not None:
                waiting.remove(ready)
                try:
                    future = pool.submit(ready.run)
                except BrokenExecutor as err:
                    raise broken(ready) from err
                running[future] = ready
            assert running or not waiting, f"{[job.name for job in waiting]} need jobs that are not there"
            for future in wait(running, timeout=None if ready is None else 0, return_when=FIRST_COMPLETED).done:
                job = running[future]
                try:
                    outcome = future.result() or "done"
                    done.add(job.name)
                except JOB_ERRORS as err:
                    failed[job.name] = err
                    outcome = f"no result: {err}"
                except BrokenExecutor as err:
                    raise broken() from err
                del running[future]
                end(job, outcome)
    if failed:
        raise JobsFailedError(failed, len(jobs))


def default_workers(device: str) -> int:
    """
    Default number of workers: one per core, up to `MAX_WORKERS`; one on a GPU, which workers would have to share.
    """
    import torch  # late: loading it takes seconds

    is_on_gpu = device != "cpu" and torch.cuda.is_available()
    return 1 if is_on_gpu else min(MAX_WORKERS, num_cores())


def load_executor(name: str) -> Executor:
    """
    Call a user's function `package.module:Name` that returns an executor, such as that of a cluster.

    What is submitted is picklable; it reads and writes the run's folder, which the executor's processes must share.

    Raises `ValueError` if it cannot be imported, or returns no [`~concurrent.futures.Executor`].
    """
    executor = load_function(name, "executor", "() -> concurrent.futures.Executor")()
    if not isinstance(executor, Executor):
        raise ValueError(f"`{name}` returns a {type(executor).__name__}; it must be a `concurrent.futures.Executor`.")
    return executor


class _ThisProcess(Executor):
    """Runs each job when it is submitted. Errors that concern more than the job are raised at once."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future[object] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except JOB_ERRORS as err:
            future.set_exception(err)
        return future


@contextmanager
def _local_executor(num_workers: int) -> Iterator[Executor]:
    if num_workers == 1:
        yield _ThisProcess()
        return
    threads = max(1, num_cores() // num_workers)
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    executor = ProcessPoolExecutor(num_workers, mp_context=context, initializer=begin_worker, initargs=(threads,))
    others = set(multiprocessing.active_children())
    try:
        yield executor
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # on SIGTERM, a game ends at its next step
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def begin_worker(num_threads: int) -> None:
    """Set up a worker process: it logs only warnings, leaves Ctrl-C to its parent, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a game installs its own handler while it is played
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_up_logging()
    logging.getLogger("pvg_hf").setLevel(logging.WARNING)  # info lines of several games would be interleaved
    quiet_libraries()
    import torch

    torch.set_num_threads(num_threads)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
