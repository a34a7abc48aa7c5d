"""Plays a game: the round loop, its phases, and the command line."""
