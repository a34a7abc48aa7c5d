"""The devices that a game runs on."""

from dataclasses import dataclass

import torch
from accelerate import PartialState

from pvg_hf.models.sources import has_bfloat16, resolve_dtype


@dataclass(frozen=True)
class Hardware:
    """
    Args:
        device (`torch.device`):
            Where this process runs its models.
        num_processes (`int`):
            Processes of the launcher, one per device.
        has_bfloat16 (`bool`):
            Whether the GPU computes in bfloat16.
        is_here (`bool`, defaults to `True`):
            Whether this is the current machine. For a plan for another one, only `has_bfloat16` is about that machine.
    """

    device: torch.device
    num_processes: int
    has_bfloat16: bool
    is_here: bool = True

    @classmethod
    def here(cls, device: str) -> "Hardware":
        """This machine, as a recipe's `device` (`auto`, `cpu` or `cuda`) uses it."""
        processes = PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
        return cls(processes.device, processes.num_processes, has_bfloat16())

    def dtype(self, dtype: str, *, is_precise: bool) -> torch.dtype:
        """The type of a player's weights, see [`resolve_dtype`]; a CPU always takes float32."""
        if self.is_here and self.device.type == "cpu":
            return torch.float32
        return resolve_dtype(dtype, is_precise=is_precise, on_bfloat16=self.has_bfloat16)
