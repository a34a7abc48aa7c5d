"""Frozen verifiers in use: one that scores solutions, and one that writes evaluations."""

from pvg_hf.scoring.discriminative_verifier import VerifierScorer
from pvg_hf.scoring.generative_verifier import GenerativeVerifier

__all__ = ["GenerativeVerifier", "VerifierScorer"]
