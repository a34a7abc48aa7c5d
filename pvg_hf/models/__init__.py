"""Loads, adapts and exports models: causal language models as provers, classifiers as verifiers."""

from pvg_hf.models.sources import resolve_model

__all__ = ["resolve_model"]
