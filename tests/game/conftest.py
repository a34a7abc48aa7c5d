"""Games that take seconds."""

from tests.support.game_fixtures import beginnings, game, play_phase
from tests.support.plan_fixtures import values

__all__ = ["beginnings", "game", "play_phase", "values"]
