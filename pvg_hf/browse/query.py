"""Which problems of a round are looked at."""

from dataclasses import dataclass
from enum import StrEnum


class Filter(StrEnum):
    """
    What a problem's solutions did to the verifier of their round. Compared are its most convincing valid sneaky mistake
    and its most convincing helpful correct solution; a problem that lacks what is asked for is left out.
    """

    ALL = "all"
    FOOLED = "fooled"  # the mistake scores above the correct solution, as `fooled` of the report's problems
    CAUGHT = "caught"  # the correct solution scores at least as high
    SNEAKY_ACCEPTED = "sneaky_accepted"  # the mistake scores above the threshold
    HELPFUL_REJECTED = "helpful_rejected"  # a helpful correct solution does not


@dataclass(frozen=True)
class Query:
    """
    Args:
        round_index (`int`):
            Whose prover wrote the solutions; -1 is the base prover.
        is_test (`bool`, defaults to `True`):
            Test problems, or those of D_V, which later verifiers learn from.
        filter ([`Filter`], defaults to `Filter.ALL`):
            What the solutions did.
        difficulty (`str`, *optional*):
            As the task names it; any by default.
        search (`str`, defaults to `""`):
            Text that the problem or its id holds, in upper or lower case.
    """

    round_index: int
    is_test: bool = True
    filter: Filter = Filter.ALL
    difficulty: str | None = None
    search: str = ""
