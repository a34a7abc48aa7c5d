"""The settings of a recipe that lower a phase's peak memory."""

from pvg_hf.config import Recipe
from pvg_hf.config.fields import LowersMemory, marked_keys


def list_memory_settings(recipe: Recipe, phase: str) -> str:
    """List the settings that lower a phase's peak memory, with their values, most effective first."""
    marks = marked_keys(Recipe, LowersMemory)
    chosen = [
        key
        for key in sorted(marks, key=lambda key: marks[key].rank)
        if phase in (marks[key].phases or (key.split(".")[0],))
        and (recipe.prover.has_critic or not marks[key].needs_critic)
    ]
    return "; ".join(f"`{key}` ({marks[key].change}, now {_value(recipe, key)})" for key in chosen)


def _value(recipe: Recipe, key: str) -> object:
    """Value of a key, and for a section whether it is given."""
    value = recipe
    for name in key.split("."):
        value = None if value is None else vars(value)[name]
    return value if value is None or isinstance(value, bool | int | str) else True
