"""Estimates of what a game costs: tokens, memory and time."""
