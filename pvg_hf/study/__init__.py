"""
A legibility study: people judge solutions without knowing who wrote them (K24, sec. 4; protocol 4.8).

Each sees a seeded choice of solutions, as many correct as flawed, evenly by round and role, no problem twice, in random
order, and has 45 seconds for each.
"""
