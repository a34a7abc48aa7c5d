"""Cases that a program is run on, the rules by which its outputs are compared, its limits, and its results."""

import json
from dataclasses import dataclass
from enum import Enum, StrEnum
from numbers import Real
from typing import Any

from pvg_hf.experimental.programs.sandbox.inside.values import encode_value


class NoExpectation(Enum):
    """Type of `NOTHING`, which stands for the expected value of a case that is only run."""

    NOTHING = "nothing"


NOTHING = NoExpectation.NOTHING


@dataclass(frozen=True)
class Comparison:
    """
    Rules by which an output is compared with the expected one.

    Args:
        float_tolerance (`float`, defaults to 0):
            Two numbers agree if they differ by at most this much, absolutely or relative to the larger one. For
            stdout, numbers are words of a line that are written with a point or an exponent. NaN agrees with NaN only.
        is_ordered (`bool`, defaults to `True`):
            Whether the order of the elements of the returned list, or of the lines of stdout, matters.
        is_type_strict (`bool`, defaults to `False`):
            Whether `2`, `2.0` and `True`, and lists and tuples, are different values.
        are_tuples_lists (`bool`, defaults to `True`):
            Whether a tuple agrees with a list of the same elements, unless types are strict. In Python, they are not
            equal.
        counts_repeats (`bool`, defaults to `True`):
            Whether it matters how often an element occurs, for outputs whose order does not matter. Without it, the
            outermost lists, tuples and sets are compared as sets.

    Raises:
        ValueError: if the tolerance is negative, infinite or NaN.
    """

    float_tolerance: float = 0.0
    is_ordered: bool = True
    is_type_strict: bool = False
    are_tuples_lists: bool = True
    counts_repeats: bool = True

    def __post_init__(self):
        if not 0 <= self.float_tolerance < float("inf"):
            raise ValueError(f"`float_tolerance` is {self.float_tolerance!r}; it must be finite and not negative.")


@dataclass(frozen=True)
class CallCase:
    """
    A call of a function of the program.

    All cases of one run with the same program are called one after the other in one process, as long as none of them
    crashes or times out.

    Args:
        function (`str`): Name of the function, or `Class.method`: the class is then created without arguments.
        arguments (`tuple`):
            Its arguments: anything that [`pvg_hf.experimental.programs.sandbox.inside.values.encode_value`] can write,
            which is every JSON value and tuples, sets, bytes, complex numbers and mappings with other keys.
        expected (`Any`, *optional*):
            The value that it should return, of the same types. It never enters the sandbox. `NOTHING`, the default,
            means that the case is only run.
        comparison (`Comparison`, *optional*): How the returned value is compared with `expected`.

    Raises:
        ValueError: if an argument or the expected value is of another type.
    """

    function: str
    arguments: tuple[Any, ...]
    expected: Any = NOTHING
    comparison: Comparison = Comparison()

    def __post_init__(self):
        object.__setattr__(self, "arguments", tuple(self.arguments))
        for value in (*self.arguments, None if self.expected is NOTHING else self.expected):
            try:
                json.dumps(encode_value(value))
            except (TypeError, ValueError, RecursionError) as err:  # ValueError: an integer of more than 4,300 digits
                raise ValueError(
                    f"A case of `{self.function}` holds {value!r:.80}, which cannot be written: {err}"
                ) from err


@dataclass(frozen=True)
class StdinCase:
    """
    A run of the program as a script. Every case has a process of its own.

    Args:
        stdin (`str`): What the program can read from stdin.
        expected (`str`, *optional*):
            What it should write to stdout. Lines are compared without the spaces at their ends, and all of them count.
            It never enters the sandbox. `None`, the default, means that the case is only run.
        comparison (`Comparison`, *optional*): How the output is compared with `expected`.
    """

    stdin: str
    expected: str | None = None
    comparison: Comparison = Comparison()


Case = CallCase | StdinCase


@dataclass(frozen=True)
class Limits:
    """
    Limits of a program in a sandbox.

    Args:
        wall_seconds (`float`, defaults to 2):
            Wall time of one case, and of loading the program. A program that is waiting for a processor, because the
            machine is busy, gets up to ten times as much, so that results do not depend on the machine's load.
        memory_mb (`int`, defaults to 512): Address space of a process in MiB, including about 30 of the interpreter.
        output_bytes (`int`, defaults to 65536):
            Bytes that a case may write to stdout, or of the JSON text of a returned value.
        num_processes (`int`, defaults to 1):
            Processes of a program at a time. With 1, it cannot start any; threads are allowed.
        timeouts_in_a_row (`int`, defaults to 3):
            After so many cases in a row that timed out, the remaining cases count as timed out and are not run, so
            that an infinite loop costs seconds and not minutes.

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


class CaseOutcome(StrEnum):
    """
    What happened when a program ran on one case.

    Everything but `HOST_FAILED` is the doing of the program. `HOST_FAILED` means that nobody can say: the sandbox
    could not run a harmless program either, so the case is neither for nor against the solution.
    """

    PASSED = "passed"
    WRONG = "wrong"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    HOST_FAILED = "host_failed"


@dataclass(frozen=True)
class CaseResult:
    """
    The result of a program on one case.

    Args:
        outcome (`CaseOutcome`):
            What happened. A case without an expected value is `PASSED` if the program ran to its end.
        output (`str`, *optional*):
            JSON text of the returned value ([`pvg_hf.experimental.programs.sandbox.inside.values.encode_value`]), or
            what the program wrote to stdout. `None` unless the program ran to its end.
        detail (`str`): What went wrong, in one line; empty if nothing did.
        seconds (`float`): Wall time of the case. For the first case of a call it includes loading the program.
    """

    outcome: CaseOutcome
    output: str | None
    detail: str
    seconds: float
