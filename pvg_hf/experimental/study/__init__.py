"""
A legibility study: people judge solutions without knowing who wrote them (Kirchner et al. 2024, sec. 4; protocol 4.8).

Each participant sees a seeded selection of solutions in random order: as many correct as flawed ones, balanced over
rounds and roles, and no problem twice. The time limit is 45 seconds per solution.
"""

SECONDS = 45.0
"""Time limit for a solution (Kirchner et al. 2024)."""

NUM_SOLUTIONS = 24
"""Solutions on a participant's sheet; at 45 seconds each they take at most 18 minutes."""

MAX_PARTICIPANTS = 200
"""Participants of a study, including those with CSV sheets. It limits what a program that invents participants can
fill."""
