"""Overrides that make a recipe one of a single round beside a game."""

from typing import Any

SIDE_RUN: dict[str, Any] = {
    "sweep": None,
    "arms": None,
    "attack": None,
    "num_rounds": 1,
    "rounds": {},
    "resume_from_hub": None,
    "hub": {"push": False},
    "logging": {"report_to": []},
}
"""A run of one round, of which nothing is published or reported to a tracker."""
