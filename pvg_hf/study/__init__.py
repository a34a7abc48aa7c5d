"""
A legibility study: people judge solutions without knowing who wrote them (K24, sec. 4; protocol 4.8).

Each sees a seeded choice of solutions, as many correct as flawed, evenly by round and role, no problem twice, in random
order, and has 45 seconds for each.
"""

SECONDS = 45.0
"""For a solution (K24)."""

NUM_SOLUTIONS = 24
"""On one participant's sheet: 18 minutes at most."""

MAX_PARTICIPANTS = 200
"""Of a study, those with sheets on paper included: what programs that invent participants can fill."""
