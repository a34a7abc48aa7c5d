"""Run folders written directly, without playing."""

from tests.support.run_fixtures import draw_rows, make_run, rounds_data, run_template, task

__all__ = ["draw_rows", "make_run", "rounds_data", "run_template", "task"]
