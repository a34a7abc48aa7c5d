"""Recipes to be checked and planned."""

from tests.support.plan_fixtures import amounts_of, hardware, rates_of_other_games, recipe_of, values

__all__ = ["amounts_of", "hardware", "rates_of_other_games", "recipe_of", "values"]
