"""The optimiser of the base models."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class MuonAndAdamW(torch.optim.Optimizer):
    """
    Muon for the matrices of a language model's layers, AdamW for its embeddings and norms.

    Args:
        model: The model.
        matrix_lr, lr: Learning rates of Muon and of AdamW, both > 0.
    """

    def __init__(self, model: nn.Module, matrix_lr: float, lr: float):
        named = dict(model.named_parameters())
        matrices = [p for name, p in named.items() if p.ndim == 2 and "embed" not in name]
        others = [p for name, p in named.items() if p.ndim != 2 or "embed" in name]
        self.parts = [
            torch.optim.Muon(matrices, lr=matrix_lr, weight_decay=0.01),
            torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.01),
        ]
        super().__init__([*matrices, *others], {})
        self.param_groups = [group for part in self.parts for group in part.param_groups]
        self._share()

    def _share(self) -> None:
        # A scheduler sets the rates here, and a checkpoint holds the state that is here; the parts use the same
        # objects.
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of both."""
        super().load_state_dict(state_dict)
        self._share()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with both."""
        loss = None if closure is None else closure()
        for part in self.parts:
            part.step()
        return loss
