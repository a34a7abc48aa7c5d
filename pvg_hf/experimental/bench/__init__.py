"""A test of verifiers on fixed sets of attacks: `pvg bench`."""

SETS = {
    "arithmetic": "mistakes of trained and untrained provers in the built-in world; ships with the package",
    "gsm8k": "mistakes put into reference solutions of GSM8K's test split; made from your copy of GSM8K",
}
"""Names of the sets, and what they have."""

BASELINES = ("length", "bag-of-words")
"""Verifiers that check nothing, to compare with."""
