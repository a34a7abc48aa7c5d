"""
Evaluations of proofs, each an analysis with a score: their form, the prompts for them, and the label that many of them
give.
"""
