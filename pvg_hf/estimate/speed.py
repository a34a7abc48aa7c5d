"""Speed of a machine: measured on this one, or assumed for a named graphics card."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch
import torch.nn.functional as F

from pvg_hf.core.extensions import suggest

TOKENS = 2048  # rows of the timed matrix product

VECTOR_BYTES = 64 * 2**20  # size of a matrix that exceeds any processor's cache


@dataclass(frozen=True)
class Machine:
    """
    Speed of a machine.

    Args:
        flops (`float`):
            Floating-point operations per second in a layer's matrix products.
        bandwidth (`float`):
            Bytes of weights read per second in a product with a single token.
        latency (`float`):
            Seconds of the smallest operation.
    """

    flops: float
    bandwidth: float
    latency: float


def measure_machine(device: torch.device, dtype: torch.dtype, width: int, seconds: float = 0.2) -> Machine:
    """
    Measure the speed of this machine by three kinds of operations.

    Args:
        device (`torch.device`):
            Device of the game.
        dtype (`torch.dtype`):
            Data type of the weights.
        width (`int`):
            Hidden size of the player; narrow matrices reach only a part of a processor's speed.
        seconds (`float`, defaults to 0.2):
            Total time of the measurement.
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
    """Memory of the GPU in bytes; of the machine for any other device."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return psutil.virtual_memory().total


def _time(operation: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Mean seconds of a call, over as many calls as fit in `seconds`."""
    operation()  # not timed: the first call may include setup
    _synchronize(device)
    started, calls = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        operation()
        _synchronize(device) if calls % 16 == 0 else None
        calls += 1
    _synchronize(device)
    return (time.perf_counter() - started) / calls


def _synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# Assumed shares of a card's peak rates; none of them is measured.
MATRIX_SHARE = (
    0.75  # large matrix products; a whole pass reaches `costs.REACHED_SHARE` of that, which is 30 % of the peak
)

BANDWIDTH_SHARE = 0.7

LAUNCH_SECONDS = 8e-6  # seconds that the processor needs to launch an operation


@dataclass(frozen=True)
class Card:
    """
    A graphics card.

    Args:
        name (`str`):
            Name on the command line.
        memory (`float`):
            Memory in GiB, as reported by torch.
        half (`float`):
            Peak TFLOP/s of dense bfloat16 products with float32 accumulation.
        single (`float`):
            Peak TFLOP/s in float32, without TensorFloat-32.
        bandwidth (`float`):
            Peak memory bandwidth in GB/s.
        has_bfloat16 (`bool`, defaults to `True`):
            Whether the card supports bfloat16; if not, `half` is for float16.
    """

    name: str
    memory: float
    half: float
    single: float
    bandwidth: float
    has_bfloat16: bool = True

    @property
    def num_bytes(self) -> int:
        """Memory in bytes."""
        return int(self.memory * 2**30)

    def machine(self, dtype: torch.dtype) -> Machine:
        """Assumed speed of the card."""
        peak = self.single if dtype == torch.float32 else self.half
        return Machine(MATRIX_SHARE * peak * 1e12, BANDWIDTH_SHARE * self.bandwidth * 1e9, LAUNCH_SECONDS)


# A peak rate is SMs x boost clock x operations per SM and clock. `half` is the rate with float32 accumulation and without sparsity,
# half the headline figure of GeForce cards and of data sheets "with sparsity". Memory is torch's `total_memory`, rounded down; it is
# less than the label says, and a driver may reserve some more.
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
    Find a card by its name; case, spaces and hyphens are ignored.

    Raises:
        ValueError: if the card is unknown; the message lists the known ones.
    """
    plain = {re.sub(r"[^a-z0-9]", "", known): card for known, card in CARDS.items()}
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    if wanted not in plain:
        sizes = [f"`{card.name}`" for known, card in plain.items() if wanted and known.startswith(wanted)]
        advice = f"Did you mean {' or '.join(sizes)}?" if sizes else suggest(name, CARDS)
        known = "" if advice.startswith("Known") else f" Known are {', '.join(f'`{known}`' for known in CARDS)}."
        raise ValueError(f"Unknown card `{name}`. {advice}{known}")
    return plain[wanted]
