"""
A process with the real client, which talks to the loopback Hub: addresses and tokens are read when `huggingface_hub` is
first imported, so the tests' own process cannot change to another one.
"""

import multiprocessing
import os
import sys
import traceback
from pathlib import Path
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
        try:
            pipe.send(("done", vars(hub_orders)[name](*args, **kwargs)))
        except Exception as err:  # noqa: BLE001 -- any error is passed on to the test
            kinds = [kind.__name__ for kind in type(err).__mro__]
            pipe.send(("raised", (str(err), kinds, traceback.format_exc())))


def refuse_other_machines(event: str, arguments: tuple) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
        if not host.startswith(("127.", "localhost", "::1")):
            raise AssertionError(f"A test tried to reach {host}.")
