"""How programs are isolated: each backend starts a worker in its own way and declares what it guarantees."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Backend:
    """
    A way to isolate programs.

    Args:
        name (`str`):
            Its name in recipes.
        guarantee (`str`):
            What it guarantees, in one line.
        command (`Callable`):
            Function `(arguments) -> command` that gives the command of a worker from the arguments of its Python.
        confinement (`Mapping[str, Any]`, *optional*):
            What the process of each program gives up ([`pvg_hf.sandbox.inside.confinement.Confinement`]).
    """

    name: str
    guarantee: str
    command: Callable[[Sequence[str]], list[str]]
    confinement: Mapping[str, Any] = field(default_factory=dict)

    @property
    def isolation(self) -> str:
        return f"{self.name}: {self.guarantee}"


def _own_python(arguments: Sequence[str]) -> list[str]:
    """This Python without its virtual environment, which only the standard library is used of."""
    return [os.path.realpath(sys.executable), *arguments]


NONE = Backend(
    "none",
    "no isolation. Programs run with your rights: they can read and write your files and use the network. Time, memory, "
    "output and open files are limited, and their processes are killed.",
    _own_python,
)

BACKENDS = {backend.name: backend for backend in (NONE,)}


def choose_backend(name: str) -> Backend:
    """
    Return the backend of a name; `auto` is the strongest that works on this machine.

    Raises:
        ValueError: if there is no such backend, or if it does not work here.
    """
    if name == "auto":
        raise ValueError(
            "No sandbox that isolates programs works here. `none` runs them with your rights; it has to be named."
        )
    if name not in BACKENDS:
        raise ValueError(f"`{name}` is not a sandbox; choose one of auto, {', '.join(BACKENDS)}.")
    return BACKENDS[name]
