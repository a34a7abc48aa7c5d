"""The settings of a recipe that lower a phase's peak memory."""

from pvg_hf.config import Recipe
from pvg_hf.config.fields import LowersMemory, marks_of


def list_memory_settings(recipe: Recipe, phase: str) -> str:
    """List the settings that lower a phase's peak memory, with their values, most effective first."""
    chosen = [
        (key, mark)
        for key, mark in sorted(marks_of(Recipe, LowersMemory), key=lambda pair: pair[1].rank)
        if phase in (mark.phases or key.split(".")[:1]) and (recipe.prover.has_critic or not mark.needs_critic)
    ]
    return "; ".join(f"`{key}` ({mark.change}, now {_value(recipe, key)})" for key, mark in chosen)


def _value(recipe: Recipe, key: str) -> object:
    """Value of a key, and for a section whether it is given."""
    value = recipe
    for name in key.split("."):
        value = None if value is None else vars(value)[name]
    return value if value is None or isinstance(value, bool | int | str) else True
