"""Speed of a machine: measured on this one, or assumed for a named graphics card."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:  # torch is loaded only where a speed is measured, so that a wrong name of a card is refused at once
    import torch

    from pvg_hf.check.costs import Work

TOKENS = 2048  # rows of the timed matrix product

VECTOR_BYTES = 64 * 2**20  # size of a matrix that exceeds any processor's cache

REACHED_SHARE = 0.4  # share of the matrix rate that a whole forward or backward pass reaches


@dataclass(frozen=True)
class Machine:
    """Speed of a machine."""

    flops: float  # floating-point operations per second in a layer's matrix products
    bandwidth: float  # bytes of weights read per second in a product with a single token
    latency: float  # seconds of the smallest operation

    def seconds(self, work: "Work") -> float:
        """Return the estimated duration of work."""
        return work.flops / (REACHED_SHARE * self.flops) + work.traffic / self.bandwidth + work.launches * self.latency


def measure_machine(device: "torch.device", dtype: "torch.dtype", width: int, seconds: float = 0.2) -> Machine:
    """
    Measure the speed of this machine in a total of `seconds`.

    Narrow matrices reach only a part of a processor's speed, so that `width` must be the hidden size of the player.
    """
    import torch
    import torch.nn.functional as F
    from torch.utils.benchmark import Timer

    side = int((VECTOR_BYTES / dtype.itemsize) ** 0.5)
    shapes = ((TOKENS, width), (3 * width, width), (1, side), (side, side))
    rows, weights, row, matrix = (torch.ones(shape, device=device, dtype=dtype) for shape in shapes)

    def time(rows: "torch.Tensor", weights: "torch.Tensor") -> float:
        timer = Timer(
            "linear(x, w)", globals={"linear": F.linear, "x": rows, "w": weights}, num_threads=torch.get_num_threads()
        )
        return timer.blocked_autorange(min_run_time=seconds / 3).median

    with torch.inference_mode():
        product, read, small = time(rows, weights), time(row, matrix), time(row[:, :8], matrix[:8, :8])
    return Machine(
        flops=2 * TOKENS * 3 * width**2 / product, bandwidth=matrix.numel() * dtype.itemsize / read, latency=small
    )


def total_memory(device: "torch.device") -> int:
    """Memory of the GPU in bytes; of the machine for any other device."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_properties(device).total_memory
    return psutil.virtual_memory().total


# Assumed shares of a card's peak rates.
MATRIX_SHARE = 0.75  # large matrix products; a whole pass reaches `REACHED_SHARE` of that, which is 30 % of the peak

BANDWIDTH_SHARE = 0.7

# Seconds that Python and torch need to start an operation, with 120 of them a layer. On an H200's machine, 24 layers took 37 ms
# when warm and 93 ms in a process's first minute: 13 and 32 microseconds.
LAUNCH_SECONDS = 18e-6


@dataclass(frozen=True)
class Card:
    """A graphics card."""

    name: str  # on the command line
    memory: float  # GiB, as reported by torch
    half: float  # peak TFLOP/s of dense bfloat16 products with float32 accumulation; of float16 without bfloat16
    single: float  # peak TFLOP/s in float32, without TensorFloat-32
    bandwidth: float  # peak memory bandwidth in GB/s
    has_bfloat16: bool = True

    @property
    def num_bytes(self) -> int:
        """Memory in bytes."""
        return int(self.memory * 2**30)

    def machine(self, dtype: "torch.dtype") -> Machine:
        """Assumed speed of the card."""
        peak = self.single if dtype.itemsize == 4 else self.half
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
        Card("rtx4060", 7.6, 30.2, 15.1, 272),  # 24 SMs at 2.46 GHz, 128 bit x 17 Gbit/s
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


# Words of a device's name that do not distinguish the cards above. An H100 on PCIe is slower, an A100 is not.
_WORDS = r"nvidia|geforce|tesla|rtx(?= a)|sxm\d?|(?<=a100-)pcie|(?<=a100 80gb )pcie|hbm\d\w*"


def card_of_device(device_name: str) -> Card | None:
    """Find a card by the name that its driver reports, e.g. `NVIDIA H100 80GB HBM3`; `None` for another model."""
    name = re.sub(_WORDS, "", device_name.lower())
    for text in (name, re.sub(r"\d+ ?gb", "", name)):  # only versions of the A100 differ in their memory alone
        plain = re.sub(r"[^a-z0-9]", "", text)
        for known, card in CARDS.items():
            if re.sub(r"[^a-z0-9]", "", known) == plain:
                return card
    return None


def peak_flops(device: "torch.device") -> float | None:
    """Peak rate of a device in half precision, in floating-point operations per second; `None` without a known GPU."""
    if device.type != "cuda":
        return None
    import torch

    card = card_of_device(torch.cuda.get_device_name(device))
    return None if card is None else card.half * 1e12


def find_card(name: str) -> Card:
    """
    Find a card by its name; case, spaces and hyphens are ignored.

    Raises:
        ValueError: if the card is unknown; the message lists the known ones.
    """
    plain = {re.sub(r"[^a-z0-9]", "", known): card for known, card in CARDS.items()}
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    if wanted not in plain:
        raise ValueError(f"Unknown card `{name}`. Known are {', '.join(f'`{known}`' for known in CARDS)}.")
    return plain[wanted]
