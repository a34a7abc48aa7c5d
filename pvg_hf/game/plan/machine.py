"""How fast this machine is."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch
import torch.nn.functional as F

TOKENS = 2048  # of the batch whose matrix products are timed
VECTOR_BYTES = 64 * 2**20  # of a matrix that no processor's cache holds


@dataclass(frozen=True)
class Machine:
    """
    Args:
        flops (`float`):
            Floating-point operations a second in the matrix products of a layer.
        bandwidth (`float`):
            Bytes of weights read a second when a single token is multiplied with them.
        latency (`float`):
            Seconds that an operation takes however small it is.
    """

    flops: float
    bandwidth: float
    latency: float


def measure_machine(device: torch.device, dtype: torch.dtype, width: int, seconds: float = 0.2) -> Machine:
    """
    Time three kinds of operations for `seconds` together.

    Args:
        device (`torch.device`):
            Where the game is played.
        dtype (`torch.dtype`):
            Of the weights.
        width (`int`):
            Hidden size of the player: narrow matrices reach a part of a processor's speed only.
        seconds (`float`, defaults to 0.2):
            To spend.
    """
    rows, weights = (torch.ones(shape, device=device, dtype=dtype) for shape in ((TOKENS, width), (3 * width, width)))
    side = int((VECTOR_BYTES / dtype.itemsize) ** 0.5)
    row, matrix = (torch.ones(shape, device=device, dtype=dtype) for shape in ((1, side), (side, side)))
    with torch.inference_mode():
        product = _time(lambda: F.linear(rows, weights), device, seconds / 3)
        read = _time(lambda: F.linear(row, matrix), device, seconds / 3)
        small = _time(lambda: F.linear(row[:, :8], matrix[:8, :8]), device, seconds / 3)
    return Machine(
        flops=2 * TOKENS * 3 * width**2 / product, bandwidth=matrix.numel() * dtype.itemsize / read, latency=small
    )


def total_memory(device: torch.device) -> int:
    """Bytes of a GPU, or of the machine where there is none."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return psutil.virtual_memory().total


def _time(operation: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Seconds of one call, over as many as fit in `seconds`; the first, which may set things up, is left out."""
    operation()
    _synchronize(device)
    started, calls = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        operation()
        _synchronize(device) if calls % 16 == 0 else None
        calls += 1
    _synchronize(device)
    return (time.perf_counter() - started) / calls


def _synchronize(device: torch.device) -> None:
    """Wait for a GPU, which works through its queue on its own."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
