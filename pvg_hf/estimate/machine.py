"""How fast a machine is: measured here, or of a named graphics card."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch
import torch.nn.functional as F

from pvg_hf.core.extensions import suggest

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


# Of a card's peak, what the planned work is taken to reach. None of it is measured.
MATRIX_SHARE = (
    0.75  # in large matrix products; a whole pass reaches `costs.REACHED_SHARE` of these, so 30 % of the peak
)

BANDWIDTH_SHARE = 0.7

LAUNCH_SECONDS = 8e-6  # of a small operation, which the processor starts


@dataclass(frozen=True)
class Card:
    """
    Args:
        name (`str`):
            By which it is named.
        memory (`float`):
            GiB that torch finds on it.
        half (`float`):
            Peak TFLOP/s of dense bfloat16 products that are summed in float32.
        single (`float`):
            Peak TFLOP/s in float32, without TensorFloat-32.
        bandwidth (`float`):
            Peak GB/s of its memory.
        has_bfloat16 (`bool`, defaults to `True`):
            Whether it has units for bfloat16; `half` is of float16 otherwise.
    """

    name: str
    memory: float
    half: float
    single: float
    bandwidth: float
    has_bfloat16: bool = True

    @property
    def num_bytes(self) -> int:
        """Of its memory."""
        return int(self.memory * 2**30)

    def machine(self, dtype: torch.dtype) -> Machine:
        """Its speed, as an assumption."""
        peak = self.single if dtype == torch.float32 else self.half
        return Machine(MATRIX_SHARE * peak * 1e12, BANDWIDTH_SHARE * self.bandwidth * 1e9, LAUNCH_SECONDS)


# A peak rate is SMs x boost clock x operations of an SM in a clock; `half` is that of products summed in float32, without sparsity,
# which is half the headline figure of GeForce cards and of data sheets "with sparsity". Memory is `total_memory` as torch reports
# it, rounded down; it is below the label's, and a driver may keep some more.
CARDS = {
    card.name: card
    for card in (
        # GeForce: 512 operations in half precision, 256 in float32. NVIDIA's whitepapers of Ampere GA102, Ada and RTX Blackwell.
        Card("rtx3060", 11.6, 25.5, 12.7, 360),  # 28 SMs at 1.777 GHz, 192 bit x 15 Gbit/s
        Card("rtx3090", 23.6, 71.2, 35.6, 936),  # 82 SMs at 1.695 GHz, 384 bit x 19.5 Gbit/s
        Card("rtx4080", 15.6, 97.5, 48.7, 717),  # 76 SMs at 2.505 GHz, 256 bit x 22.4 Gbit/s
        Card("rtx4090", 23.5, 165.2, 82.6, 1008),  # 128 SMs at 2.52 GHz, 384 bit x 21 Gbit/s
        Card("rtx5090", 31.4, 209.5, 104.8, 1792),  # 170 SMs at 2.407 GHz, 512 bit x 28 Gbit/s
        # Others: 1024 operations in half precision.
        # T4: Turing whitepaper, 40 SMs at 1.59 GHz, 256 bit x 10 Gbit/s; the data sheet rounds the latter to 300 GB/s.
        Card("t4", 14.6, 65.1, 8.1, 320, has_bfloat16=False),
        Card("l4", 22.0, 121, 30.3, 300),  # L4 data sheet: 242 with sparsity; 58 SMs at 2.04 GHz
        Card("a10", 22.0, 125, 31.2, 600),  # A10 data sheet; 72 SMs at 1.695 GHz
        # A10G, of AWS's G5: NVIDIA's sheet of it gives half an A10's operations in a clock; 80 SMs at 1.71 GHz.
        Card("a10g", 22.0, 70, 35.0, 600),
        Card("a6000", 47.4, 154.8, 38.7, 768),  # GA102 whitepaper, appendix C; 84 SMs at 1.8 GHz
        Card("l40s", 44.4, 362, 91.6, 864),  # L40S data sheet: 362 and 733 with sparsity; 142 SMs at 2.52 GHz
        # SXM modules. A100 data sheet: 2048 operations, 108 SMs at 1.41 GHz.
        Card("a100-40gb", 39.4, 312, 19.5, 1555),
        Card("a100-80gb", 79.1, 312, 19.5, 2039),
        # H100 and H200 data sheets, whose 1979 is with sparsity: 4096 operations, 132 SMs at 1.83 GHz, 1.98 GHz in float32.
        Card("h100", 79.1, 989, 67.0, 3350),
        Card("h200", 139.8, 989, 67.0, 4800),
    )
}


def find_card(name: str) -> Card:
    """
    A card by its name; upper and lower case, spaces and hyphens do not matter.

    Raises:
        ValueError: for a card that is not known; the message lists those that are.
    """
    plain = {re.sub(r"[^a-z0-9]", "", known): card for known, card in CARDS.items()}
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    if wanted not in plain:
        sizes = [f"`{card.name}`" for known, card in plain.items() if wanted and known.startswith(wanted)]
        advice = f"Did you mean {' or '.join(sizes)}?" if sizes else suggest(name, CARDS)
        known = "" if advice.startswith("Known") else f" Known are {', '.join(f'`{known}`' for known in CARDS)}."
        raise ValueError(f"Unknown card `{name}`. {advice}{known}")
    return plain[wanted]
