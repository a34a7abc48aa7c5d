"""The trainer of verifiers that write an evaluation and predict a score."""
