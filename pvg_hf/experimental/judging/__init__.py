"""Evaluations of finished rounds that need the players, or more than a round's phases wrote."""
