"""Games that take seconds, and run folders written directly."""

from tests.support.game_fixtures import beginnings, game, play_phase
from tests.support.run_fixtures import draw_rows, make_run, rounds_data, run_template, task

__all__ = ["beginnings", "draw_rows", "game", "make_run", "play_phase", "rounds_data", "run_template", "task"]
