"""Weights before a training, and the parameters that it changed."""

import torch


def weights_of(model) -> dict[str, torch.Tensor]:
    """Copies of all parameters, by name."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def moved_since(model, before: dict[str, torch.Tensor]) -> set[str]:
    """Names of the parameters that differ from those that `weights_of` copied."""
    return {name for name, parameter in model.named_parameters() if not parameter.equal(before[name])}
