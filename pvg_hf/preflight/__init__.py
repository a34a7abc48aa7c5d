"""Checks of a recipe before anything is played."""
