"""A frozen verifier as a fast scorer of solutions."""

from pvg_hf.scoring.scorer import VerifierScorer

__all__ = ["VerifierScorer"]
