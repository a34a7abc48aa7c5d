"""Games that take seconds."""

from tests.support.game_fixtures import beginnings, game, play_phase
from tests.support.plan_fixtures import amounts_of, context_of, values

__all__ = ["amounts_of", "beginnings", "context_of", "game", "play_phase", "values"]
