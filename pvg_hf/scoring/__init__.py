"""A frozen verifier as a fast scorer of solutions, and one that writes evaluations."""

from pvg_hf.scoring.score_verifier import ScoreVerifier
from pvg_hf.scoring.scorer import VerifierScorer

__all__ = ["ScoreVerifier", "VerifierScorer"]
