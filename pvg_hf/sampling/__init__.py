"""Samples solutions from a prover."""

from pvg_hf.sampling.sampler import Sample, Sampler, iterate_samples, sample_solutions

__all__ = ["Sample", "Sampler", "iterate_samples", "sample_solutions"]
