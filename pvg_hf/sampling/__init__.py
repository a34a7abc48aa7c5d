"""Samples solutions from a prover."""

from pvg_hf.sampling.graded_solutions import sample_solutions
from pvg_hf.sampling.sampler import Sample, Sampler, iterate_samples

__all__ = ["Sample", "Sampler", "iterate_samples", "sample_solutions"]
