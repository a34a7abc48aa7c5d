"""Frozen verifiers in use: one that scores solutions, and one that writes evaluations."""

from pvg_hf.scoring.discriminative import VerifierScorer
from pvg_hf.scoring.generative import GenerativeVerifier

__all__ = ["GenerativeVerifier", "VerifierScorer"]
