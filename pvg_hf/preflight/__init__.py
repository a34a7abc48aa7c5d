"""Checks of a recipe before anything is played. The functions `check_*` return or yield messages instead of raising errors."""
