"""The devices that a game runs on."""

import logging
import os
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from accelerate import PartialState
from torch import nn

from pvg_hf.models.sources import has_bfloat16, resolve_dtype

logger = logging.getLogger(__name__)

Model = TypeVar("Model", bound=nn.Module)


def moved(model: Model, target: torch.device | torch.dtype | str) -> Model:
    """Return `model.to(target)` with the type of `model`, which transformers' annotation of `to` loses."""
    return model.to(target)


def free_bytes(device: torch.device) -> int:
    """Free memory of a GPU, with what torch holds and does not use."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def join_processes(device: str) -> PartialState:
    """Return the state of the launcher's processes, on the devices that a recipe's `device` selects."""
    ignore_accelerate_variable("ACCELERATE_MIXED_PRECISION")
    ignore_accelerate_variable("ACCELERATE_DYNAMO_BACKEND")
    return PartialState(cpu=device == "cpu" or not torch.cuda.is_available())


def ignore_accelerate_variable(name: str) -> None:
    """
    Set a variable to `no`, with a warning if it has another value: accelerate would follow it, whoever has set it.
    """
    value = os.environ.get(name, "no")
    if value.lower() != "no":
        logger.warning(
            "%s=%s is ignored: settings decide (`bf16`, `fp16` and `torch_compile` of a trainer).", name, value
        )
        os.environ[name] = "no"


@dataclass(frozen=True)
class Hardware:
    """
    The device of this process, and the number of processes.

    Args:
        num_processes: Number of processes of the launcher, one per device.
        is_here: Whether this is the current machine. In a plan for another machine, only `has_bfloat16` describes that
            machine.
    """

    device: torch.device
    num_processes: int
    has_bfloat16: bool
    is_here: bool = True

    @classmethod
    def here(cls, device: str) -> "Hardware":
        """Detect the hardware that a recipe's `device` (`auto`, `cpu` or `cuda`) selects on this machine."""
        processes = join_processes(device)
        return cls(processes.device, processes.num_processes, has_bfloat16())

    @classmethod
    def elsewhere(cls, device: str, *, has_bfloat16: bool) -> "Hardware":
        """Describe the hardware that a plan is for, as [`Hardware.here`] describes this machine."""
        return replace(cls.here(device), has_bfloat16=has_bfloat16, is_here=False)

    @property
    def has_gpu(self) -> bool:
        """Whether models run on a GPU: that of this process, or of the machine that a plan is for."""
        return not self.is_here or self.device.type == "cuda"

    def dtype(self, dtype: str, *, is_precise: bool = False, is_trained: bool = False) -> torch.dtype:
        """
        Return the type of a player's weights, see [`resolve_dtype`].

        Args:
            is_precise: Whether `auto` is float32, as for scores. On a CPU it always is.
            is_trained: Whether the weights themselves are trained, not an adapter on them. They are float32, since
                bfloat16 would round away most updates.
        """
        if is_trained:
            return torch.float32
        return resolve_dtype(dtype, is_precise=is_precise, on_bfloat16=self.has_gpu and self.has_bfloat16)

    def computes_in_bfloat16(self, dtype: str) -> bool:
        """Whether a player with this `dtype` is trained in bfloat16: on a GPU that has it, or on a CPU if asked."""
        return self.has_bfloat16 if self.has_gpu else dtype == "bfloat16"
