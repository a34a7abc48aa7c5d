"""The roles that a solution can be written in, and the outcomes that it can have."""

from enum import StrEnum


class Role(StrEnum):
    """Who wrote a solution: the game's two roles, and the base prover that was told of no role."""

    HELPFUL = "helpful"
    SNEAKY = "sneaky"
    BASE = "base"


GAME_ROLES = (Role.HELPFUL, Role.SNEAKY)


class Outcome(StrEnum):
    """How a solution, or a check of it, ended. The codes are stable: pools, event logs, reports and the Hub hold them."""

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


ACCEPTING = frozenset({Outcome.VERIFIED, Outcome.VERIFIER_SPURIOUS_PASS})
"""The check says that the solution is correct."""

ABSTENTIONS = frozenset({Outcome.VERIFIER_TIMEOUT, Outcome.VERIFIER_INTERNAL_ERROR, Outcome.BUDGET_EXHAUSTED})
"""The check says nothing."""

SPURIOUS = frozenset({Outcome.VERIFIER_SPURIOUS_FAIL, Outcome.VERIFIER_SPURIOUS_PASS})
"""The check says what is not so, because noise was injected."""


def label_of(code: Outcome) -> int | None:
    """What a learner is told by a check that ended so: 1 correct, 0 incorrect, `None` where it abstained."""
    return None if code in ABSTENTIONS else int(code in ACCEPTING)
