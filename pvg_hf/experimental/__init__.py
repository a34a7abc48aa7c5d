"""Experiments on the game: may change between releases."""
