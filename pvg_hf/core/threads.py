"""Calls of a function in several threads, for functions that wait for other processes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def call_in_threads(
    function: Callable[..., Result], arguments: Sequence[tuple[Any, ...]], num_threads: int
) -> list[Result]:
    """
    Call a function with each tuple of positional arguments, and return the results in this order.

    Up to `num_threads` calls are made at the same time; with 1, all are made in this thread. The first error, in the
    order of `arguments`, is raised after all calls have ended.
    """
    if num_threads == 1 or len(arguments) < 2:
        return [function(*given) for given in arguments]
    with ThreadPoolExecutor(min(num_threads, len(arguments))) as executor:
        return list(executor.map(lambda given: function(*given), arguments))
