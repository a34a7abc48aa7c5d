"""The roles that a solution is written in, and the outcomes of a solution or a checker's call."""

from enum import StrEnum


class Role(StrEnum):
    """Writer of a solution: a prover in one of the game's two roles, or the base prover, which has no role."""

    HELPFUL = "helpful"
    SNEAKY = "sneaky"
    BASE = "base"


GAME_ROLES = (Role.HELPFUL, Role.SNEAKY)


class Outcome(StrEnum):
    """
    Outcome of a solution, or of a checker's call.

    The codes are stable: pools, event logs, reports and the Hub contain them.
    """

    VERIFIED = "VERIFIED"
    PROOF_INVALID = "PROOF_INVALID"
    NO_ANSWER = "NO_ANSWER"
    TRUNCATED = "TRUNCATED"
    UNCERTIFIED = "UNCERTIFIED"
    VERIFIER_TIMEOUT = "VERIFIER_TIMEOUT"
    VERIFIER_SPURIOUS_FAIL = "VERIFIER_SPURIOUS_FAIL"
    VERIFIER_SPURIOUS_PASS = "VERIFIER_SPURIOUS_PASS"
    VERIFIER_INTERNAL_ERROR = "VERIFIER_INTERNAL_ERROR"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    UNDECIDED = "UNDECIDED"


ACCEPTING = frozenset({Outcome.VERIFIED, Outcome.VERIFIER_SPURIOUS_PASS})
"""Outcomes of a call that declared the solution correct."""

ABSTENTIONS = frozenset(
    {Outcome.VERIFIER_TIMEOUT, Outcome.VERIFIER_INTERNAL_ERROR, Outcome.BUDGET_EXHAUSTED, Outcome.UNDECIDED}
)
"""Outcomes of a call without a verdict, and of a person who could not decide."""

SPURIOUS = frozenset({Outcome.VERIFIER_SPURIOUS_FAIL, Outcome.VERIFIER_SPURIOUS_PASS})
"""Outcomes of a call with a verdict that injected noise made wrong."""


def label_of(code: Outcome) -> int | None:
    """Return the label that an outcome gives a learner: 1 correct, 0 incorrect, `None` if the checker abstained."""
    return None if code in ABSTENTIONS else int(code in ACCEPTING)
