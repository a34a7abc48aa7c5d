"""Limits of a program in a sandbox."""

from dataclasses import dataclass
from numbers import Real


@dataclass(frozen=True)
class Limits:
    """
    Limits of a program in a sandbox.

    Args:
        wall_seconds (`float`, defaults to 2):
            Wall time of one case, and of loading the program. A program that is waiting for a processor, because the
            machine is busy, gets up to ten times as much, so that results do not depend on the machine's load.
        processor_seconds (`float`, defaults to 2):
            Processor time of one case.
        memory_mb (`int`, defaults to 512):
            Address space of a process in MiB, including about 30 of the interpreter.
        output_bytes (`int`, defaults to 65536):
            Bytes that a case may write to stdout, or of the JSON text of a returned value.
        num_processes (`int`, defaults to 1):
            Processes of a program at a time. With 1, it cannot start any; threads are allowed.
        num_open_files (`int`, defaults to 32):
            Open files of a process.
        timeouts_in_a_row (`int`, defaults to 3):
            After so many cases in a row that timed out, the remaining cases count as timed out and are not run, so that
            an infinite loop costs seconds and not minutes.

    Raises:
        ValueError: if a limit is not positive.
    """

    wall_seconds: float = 2.0
    processor_seconds: float = 2.0
    memory_mb: int = 512
    output_bytes: int = 65536
    num_processes: int = 1
    num_open_files: int = 32
    timeouts_in_a_row: int = 3

    def __post_init__(self):
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not value >= least:
                raise ValueError(f"`{name}` is {value!r}; it must be a number of at least {least}.")


# The interpreter itself needs some memory and a few open files.
_LEAST = {
    "wall_seconds": 0.01,
    "processor_seconds": 0.01,
    "memory_mb": 64,
    "output_bytes": 1,
    "num_processes": 1,
    "num_open_files": 8,
    "timeouts_in_a_row": 1,
}
