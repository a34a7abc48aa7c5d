"""Plays the cells of a sweep, one after the other or in several processes."""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext

import torch

from pvg_hf.config import Recipe
from pvg_hf.core.extensions import load_function
from pvg_hf.core.units import show_seconds
from pvg_hf.experimental.sweep.cells import Cell
from pvg_hf.game.limits import PartsFailedError
from pvg_hf.run.console import quiet_libraries, set_up_logging
from pvg_hf.run.environment import num_cores

logger = logging.getLogger(__name__)


def begin_worker(num_threads: int) -> None:
    """
    Set up a worker process: it logs only warnings, leaves Ctrl-C to its parent, and ends with its parent.

    Args:
        num_threads (`int`):
            Number of threads for torch.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a game installs its own handler while it is played
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_up_logging()
    logging.getLogger("pvg_hf").setLevel(logging.WARNING)  # info lines of several games would be interleaved
    quiet_libraries()
    import torch

    torch.set_num_threads(num_threads)


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


MAX_WORKERS = 8  # default limit: each worker holds the models of a game

# Errors that concern a single cell; any other error ends the sweep.
CELL_ERRORS = (ValueError, FloatingPointError)

Finished = tuple[Cell, Exception | None]


class WorkerDiedError(PartsFailedError):
    """A worker was killed from outside, e.g. by the system when it runs out of memory."""


def default_workers(recipe: Recipe) -> int:
    """Default number of workers: one per core, up to `MAX_WORKERS`; one on a GPU, which workers would have to share."""
    is_on_gpu = recipe.device != "cpu" and torch.cuda.is_available()
    return 1 if is_on_gpu else min(MAX_WORKERS, num_cores())


def load_executor(name: str) -> Executor:
    """
    Call a user's function that returns an executor, such as that of a cluster.

    Args:
        name (`str`):
            `package.module:Name` of a function without required arguments. What is submitted is picklable; it
            reads and writes the run's folder, which the executor's processes must share.

    Raises:
        ValueError: if it cannot be imported, or returns no [`~concurrent.futures.Executor`].
    """
    executor = load_function(name, "executor", "() -> concurrent.futures.Executor")()
    if not isinstance(executor, Executor):
        raise ValueError(f"`{name}` returns a {type(executor).__name__}; it must be a `concurrent.futures.Executor`.")
    return executor


def finish_cells(
    cells: Sequence[Cell],
    finished: set[Cell],
    work: Callable[[Cell], None],
    *,
    num_workers: int,
    executor: Executor | None = None,
) -> Iterator[Finished]:
    """
    Play all cells, each after its reference.

    Args:
        cells (`Sequence[Cell]`):
            Cells to play, or other work with a `reference`; references first.
        finished (`set[Cell]`):
            Cells that were finished before.
        work (`Callable`):
            Plays a cell; it must be picklable.
        num_workers (`int`):
            Number of processes. With 1, cells run in this process.
        executor ([`~concurrent.futures.Executor`], *optional*):
            Runs the cells instead, as many at a time as it can; it is not shut down.

    Yields:
        `(cell, error)` when a cell ends; the error is `None`, or that of the cell or of its reference.

    Raises:
        WorkerDiedError: if a worker was killed.
    """
    ready = {*finished}
    failed: dict[Cell, Exception] = {}
    if executor is None and num_workers == 1:
        ended = _run_in_order(cells, ready, failed, work)
    else:
        ended = _run_in_processes(cells, ready, failed, work, num_workers, executor)
    for cell, error in ended:
        if error is None:
            ready.add(cell)
        else:
            failed[cell] = error
        yield cell, error


def log_ends(ended: Iterable[Finished], num_cells: int, headline: Callable[[Cell], str]) -> Iterator[Finished]:
    """
    Log the outcome of each cell that ends, with the expected time for the others.

    Args:
        ended (`Iterable`):
            The return value of [`finish_cells`].
        num_cells (`int`):
            Number of cells that will end.
        headline (`Callable`):
            Describes the result of a cell.

    Yields:
        The items of `ended`.
    """
    started = time.monotonic()
    for number, (cell, error) in enumerate(ended, start=1):
        left = (time.monotonic() - started) / number * (num_cells - number)
        outcome = headline(cell) if error is None else f"no result: {error}"
        logger.info("%d/%d %s: %s; about %s left", number, num_cells, cell, outcome, show_seconds(left))
        yield cell, error


def _run_in_order(
    cells: Sequence[Cell], ready: set[Cell], failed: dict[Cell, Exception], work: Callable[[Cell], None]
) -> Iterator[Finished]:
    for cell in cells:
        error = None if cell.reference in (cell, *ready) else failed[cell.reference]
        try:
            if error is None:
                work(cell)
        except CELL_ERRORS as err:
            error = err
        yield cell, error


def _run_in_processes(
    cells: Sequence[Cell],
    ready: set[Cell],
    failed: dict[Cell, Exception],
    work: Callable[[Cell], None],
    num_workers: int,
    given: Executor | None,
) -> Iterator[Finished]:
    waiting, running = list(cells), {}
    with nullcontext(given) if given is not None else _workers(num_workers) as executor:
        while waiting or running:
            for cell in [cell for cell in waiting if cell.reference in (cell, *ready)]:
                waiting.remove(cell)
                running[executor.submit(work, cell)] = cell
            for cell in [cell for cell in waiting if cell.reference in failed]:
                waiting.remove(cell)
                yield cell, failed[cell.reference]
            for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                yield running.pop(future), _error_of(future)


def _error_of(future: Future) -> Exception | None:
    try:
        future.result()
    except CELL_ERRORS as err:
        return err
    except BrokenProcessPool as err:
        raise WorkerDiedError(
            "A worker was killed, perhaps because memory ran out. Finished cells are kept: run the same command again, "
            "with fewer `--workers`."
        ) from err
    return None


@contextmanager
def _workers(number: int) -> Iterator[ProcessPoolExecutor]:
    threads = max(1, num_cores() // number)
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    executor = ProcessPoolExecutor(number, mp_context=context, initializer=begin_worker, initargs=(threads,))
    others = set(multiprocessing.active_children())
    try:
        yield executor
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # on SIGTERM, a game ends at its next step
        raise
    finally:
        executor.shutdown(cancel_futures=True)
