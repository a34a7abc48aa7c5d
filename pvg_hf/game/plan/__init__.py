"""What a game will be: whether its recipe can be played, and how large, long and memory-hungry each phase is."""

from pvg_hf.game.plan.checks import check_recipe, refuse_mistakes
from pvg_hf.game.plan.describe import describe_plan

__all__ = ["check_recipe", "describe_plan", "refuse_mistakes"]
