"""Names of the evaluations of a finished round; importing them loads no torch, so that a wrong name is refused at once."""

from collections.abc import Iterable

EVALUATION_NAMES = (
    "best_of_n",
    "attacks",
    "untrained_attacks",
    "regression",
    "role_separability",
    "style",
    "legibility",
    "legibility_tax",
)


def split_settings(overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """Divide settings into those of evaluations (`NAME.key=value`) and all others, such as those of a recipe."""
    sides: tuple[list[str], list[str]] = [], []
    for override in overrides:
        name, dot, _ = override.partition("=")[0].partition(".")
        sides[0 if dot and name in EVALUATION_NAMES else 1].append(override)
    return sides
