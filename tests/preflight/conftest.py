"""Recipes for the checks before a game."""

from tests.support.plan_fixtures import hardware, recipe_of, values

__all__ = ["hardware", "recipe_of", "values"]
