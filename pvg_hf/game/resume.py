"""Whether a run may be continued with a recipe."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.game.folder import damaged_weights, replay_advice

# What may change from one start of a run to the next: none of it touches a draw or a gradient.
CHANGEABLE = frozenset({"num_rounds", "logging", "hub", "output_dir"})


def check_unchanged(stored: Recipe, recipe: Recipe) -> None:
    """
    Raises:
        ValueError: with every difference, if the run was begun with another recipe; rounds may be added.
    """
    before, now = _leaves(stored.to_dict()), _leaves(recipe.to_dict())
    changed = [
        f"- `{key}`: {before.get(key)!r} before, {now.get(key)!r} now"
        for key in sorted(before.keys() | now.keys())
        if key.split(".")[0] not in CHANGEABLE and before.get(key) != now.get(key)
    ]
    if now["num_rounds"] < before["num_rounds"]:
        changed.append(f"- `num_rounds`: {before['num_rounds']} before, {now['num_rounds']} now (may only grow)")
    if changed:
        raise ValueError(
            f"The run `{recipe.name}` was begun with another recipe:\n" + "\n".join(changed) + "\n"
            "Continue it with the recipe in its folder, or give this one another `name`."
        )


def check_weights(folders: Iterable[Path]) -> None:
    """
    Raises:
        ValueError: if a model in one of the finished phases' folders is damaged.
    """
    for folder in folders:
        damaged = damaged_weights(folder)
        if damaged is not None:
            raise ValueError(f"{damaged} is damaged or was cut short. {replay_advice(folder)}")


def _leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        leaves |= _leaves(value, f"{path}.") if isinstance(value, dict) and value else {path: value}
    return leaves
