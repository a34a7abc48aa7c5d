"""Rights that a program's process gives up before the program runs."""

import ctypes
import math
import resource
import sys
from typing import Any

from pvg_hf.experimental.programs.sandbox.inside.syscall_filter import SyscallFilter

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _SIGKILL = 1, 4, 9

Filters = tuple[SyscallFilter, SyscallFilter] | None
"""Filters of system calls, for programs that may start no process and for others; `None` without isolation."""


def drop_dumpable() -> None:
    """Keep other processes of the same user from reading the memory of this one and those forked from it."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def confine(filters: Filters, limits: dict[str, Any]) -> None:
    """
    Set the limits of this process (the fields of [`pvg_hf.experimental.programs.sandbox.Limits`]) and confine it.

    Raises:
        OSError: if the kernel refuses a step. No program runs then.
    """
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits["num_open_files"])
    # The relay watches the time of a case. This is what remains if the relay cannot.
    _limit(resource.RLIMIT_CPU, math.ceil(limits["processor_seconds"] * limits["num_cases"]) + 5)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        # Elsewhere the address space is counted in another way.
        _limit(resource.RLIMIT_AS, limits["memory_mb"] << 20)
    if filters is not None:
        filters[limits["num_processes"] > 1].install()


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
