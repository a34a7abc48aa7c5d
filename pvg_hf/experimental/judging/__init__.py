"""Evaluations of finished rounds that need the players, or more than a round's phases wrote."""

# Here, because importing it loads no torch: a wrong name is refused at once.
EVALUATION_NAMES = (
    "best_of_n",
    "attacks",
    "untrained_attacks",
    "regression",
    "role_separability",
    "style",
    "legibility",
)
