"""
A process with the real client, which talks to the loopback Hub: addresses and tokens are read when `huggingface_hub`
is first imported, so the tests' own process cannot change to another one.
"""

import multiprocessing
import os
import sys
import traceback
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.loopback_hub import TOKEN


class ClientError(Exception):
    """The error of an order, with its message; `kinds` are the names of its classes, `trace` has the rest."""

    def __init__(self, message: str, kinds: list[str], trace: str):
        super().__init__(message)
        self.kinds = kinds
        self.trace = trace
        self.add_note(trace)


class Client:
    """
    A process that runs the functions of `hub_orders.py`.

    Args:
        endpoint (`str`):
            Address of the Hub.
        home (`Path`):
            The client's folder for caches.
    """

    def __init__(self, endpoint: str, home: Path):
        self.home = home
        here, there = multiprocessing.Pipe()
        settings = {
            "HF_ENDPOINT": endpoint,
            "HF_TOKEN": TOKEN,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_OFFLINE": "0",
            "OMP_NUM_THREADS": "1",
        }
        before = dict(os.environ)
        os.environ.update(settings)
        try:
            self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
            self.process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        self.pipe = here
        there.close()

    def __call__(self, order: str, *args: Any, **kwargs: Any) -> Any:
        """
        Carry out a function of `hub_orders.py`.

        Raises:
            ClientError: if it raised something.
        """
        self.pipe.send((order, args, kwargs))
        outcome, value = self.pipe.recv()
        if outcome == "raised":
            raise ClientError(*value)
        return value

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def serve(pipe) -> None:
    """Run orders until the pipe is closed."""
    sys.addaudithook(refuse_other_machines)
    from tests.support import hub_orders

    while True:
        try:
            name, args, kwargs = pipe.recv()
        except EOFError:
            return
        with ExitStack() as stack:
            stack.push(partial(send_error, pipe))
            pipe.send(("done", vars(hub_orders)[name](*args, **kwargs)))


def send_error(pipe, kind: type | None, err: BaseException | None, trace: TracebackType | None) -> bool:
    """Send the error of an order, if any; returns whether it was sent, so that the process continues."""
    is_sent = isinstance(err, Exception)
    if is_sent:
        kinds = [base.__name__ for base in kind.__mro__]
        pipe.send(("raised", (str(err), kinds, "".join(traceback.format_exception(err)))))
    return is_sent


def refuse_other_machines(event: str, arguments: tuple) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
        if not host.startswith(("127.", "localhost", "::1")):
            raise AssertionError(f"A test tried to reach {host}.")
