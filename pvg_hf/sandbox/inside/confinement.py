"""What a program's process gives up before the program runs."""

import ctypes
import math
import os
import resource
import sys
from dataclasses import dataclass
from typing import Any

_PR_SET_DUMPABLE = 4


@dataclass(frozen=True)
class Confinement:
    """
    What a program's process gives up before the program runs.

    Args:
        ruleset (`int`, *optional*):
            Descriptor of a Landlock ruleset.
        is_filtered (`bool`, defaults to `False`):
            Whether system calls are filtered, so that a program with `num_processes` of 1 cannot start a process.
    """

    ruleset: int | None = None
    is_filtered: bool = False


def drop_dumpable() -> None:
    """Keep other processes of the same user from reading the memory of this one and those forked from it."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def confine(confinement: Confinement, limits: dict[str, Any]) -> None:
    """Set the limits of this process (the fields of [`pvg_hf.sandbox.program_limits.Limits`]) and confine it."""
    os.nice(0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, limits["num_open_files"])
    if sys.platform == "linux":  # elsewhere the address space is counted in another way
        _limit(resource.RLIMIT_AS, limits["memory_mb"] << 20)
    # The relay watches the time of a case. This is what remains if the relay cannot.
    _limit(resource.RLIMIT_CPU, math.ceil(limits["processor_seconds"] * limits["num_cases"]) + 5)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
