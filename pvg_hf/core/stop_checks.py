"""Lets loops that may take long ask, between two tokens or batches, whether they should end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def stoppable(check: Callable[[], None]) -> Iterator[None]:
    """Let [`stop_if_asked`] call `check` within the block; an error that it raises ends the block."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def stop_if_asked() -> None:
    """Call the check of the surrounding [`stoppable`] block, if there is one."""
    check = _check.get()
    if check is not None:
        check()
