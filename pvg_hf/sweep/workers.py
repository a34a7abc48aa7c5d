"""Finishes the cells of a sweep, one after the other or in several processes."""

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import torch

from pvg_hf.config import Recipe
from pvg_hf.game.console import quiet_libraries, set_up_logging
from pvg_hf.run.environment import num_cores
from pvg_hf.sweep.cells import Cell


def begin_worker(num_threads: int) -> None:
    """
    Speak of warnings alone, leave Ctrl-C to the process that started this one, and end with it.

    Args:
        num_threads (`int`):
            For torch.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a game listens for it by itself while it is played
    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_up_logging()
    logging.getLogger("pvg_hf").setLevel(logging.WARNING)  # phases of several games at once would be told pell-mell
    quiet_libraries()
    import torch

    torch.set_num_threads(num_threads)


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


MAX_WORKERS = 8  # by default; each holds the models of a game

# What says that this cell cannot be played; everything else says that none can.
CELL_ERRORS = (ValueError, FloatingPointError)

Finished = tuple[Cell, Exception | None]


class WorkerDiedError(RuntimeError):
    """A worker was killed from outside, as a system does that runs out of memory."""


def default_workers(recipe: Recipe) -> int:
    """One for each core, up to `MAX_WORKERS`; one where a GPU is used, which workers would have to share."""
    is_on_gpu = recipe.device != "cpu" and torch.cuda.is_available()
    return 1 if is_on_gpu else min(MAX_WORKERS, num_cores())


def finish_cells(
    cells: Sequence[Cell], finished: set[Cell], work: Callable[[Cell], None], *, num_workers: int
) -> Iterator[Finished]:
    """
    Have every cell worked on, each after its reference.

    Args:
        cells (`Sequence[Cell]`):
            What is to be done, references first.
        finished (`set[Cell]`):
            What was done before.
        work (`Callable`):
            Finishes a cell; can be pickled.
        num_workers (`int`):
            Processes. One is this process itself.

    Yields:
        `(cell, error)` as they end, the error being `None` or that which kept the cell, or its reference, from being played.

    Raises:
        WorkerDiedError: if a worker was killed.
    """
    ready = {*finished}
    failed: dict[Cell, Exception] = {}
    for cell, error in (
        _run_in_order(cells, ready, failed, work)
        if num_workers == 1
        else _run_in_processes(cells, ready, failed, work, num_workers)
    ):
        if error is None:
            ready.add(cell)
        else:
            failed[cell] = error
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
) -> Iterator[Finished]:
    waiting, running = list(cells), {}
    with _workers(num_workers) as executor:
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
            "A worker was killed, perhaps as memory ran out. What is finished is kept: run the same command again, with "
            "fewer `--workers`."
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
            process.terminate()  # a game ends at its next step
        raise
    finally:
        executor.shutdown(cancel_futures=True)
