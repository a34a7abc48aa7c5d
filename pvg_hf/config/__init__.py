"""Recipes: dataclasses for their sections, loading and checking."""

from pvg_hf.config.load import RecipeError, load_recipe
from pvg_hf.config.recipe import Recipe

__all__ = ["Recipe", "RecipeError", "load_recipe"]
