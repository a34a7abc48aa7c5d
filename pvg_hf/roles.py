"""The roles a solution can be written in."""

from enum import StrEnum


class Role(StrEnum):
    """Who wrote a solution: the game's two roles, and the base prover that was told of no role."""

    HELPFUL = "helpful"
    SNEAKY = "sneaky"
    BASE = "base"


GAME_ROLES = (Role.HELPFUL, Role.SNEAKY)
