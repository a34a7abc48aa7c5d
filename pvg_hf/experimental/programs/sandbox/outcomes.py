"""Result of running a program on a case."""

from dataclasses import dataclass
from enum import StrEnum


class CaseOutcome(StrEnum):
    """
    What happened when a program ran on one case.

    Everything but `HOST_FAILED` is the doing of the program. `HOST_FAILED` means that nobody can say: the sandbox could
    not run a harmless program either, so the case is neither for nor against the solution.
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
            JSON text of the returned value ([`pvg_hf.experimental.programs.sandbox.inside.values.encode_value`]), or what the program wrote to
            stdout. `None` unless the program ran to its end.
        detail (`str`):
            What went wrong, in one line; empty if nothing did.
        seconds (`float`):
            Wall time of the case. For the first case of a call it includes loading the program.
    """

    outcome: CaseOutcome
    output: str | None
    detail: str
    seconds: float
