"""Answers of a trained prover, chosen by its verifier."""
