"""
Names of the evaluations of a finished round; importing them loads no torch, so that a wrong name is refused at once.
"""

EVALUATION_NAMES = (
    "best_of_n",
    "attacks",
    "untrained_attacks",
    "regression",
    "role_separability",
    "style",
    "legibility",
)
