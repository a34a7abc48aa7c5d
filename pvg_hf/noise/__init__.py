"""Imperfect labels, as pure functions of tensors. Every draw comes from a generator that the caller hands over."""

from pvg_hf.noise.labels import effective_label, flip_labels, flip_labels_by_uniforms
from pvg_hf.noise.rates import PairOutcomeRates, pair_flip_rate, pair_outcome_rates

__all__ = [
    "PairOutcomeRates",
    "effective_label",
    "flip_labels",
    "flip_labels_by_uniforms",
    "pair_flip_rate",
    "pair_outcome_rates",
]
