"""Graphics cards: memory and peak rates of those that a plan can be for, and of this machine."""

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:  # torch is loaded only where it is needed, so that a wrong name of a card is refused at once
    import torch


@dataclass(frozen=True)
class Card:
    """A graphics card."""

    name: str  # on the command line
    memory: float  # GiB, as reported by torch
    half: float  # peak TFLOP/s of dense bfloat16 products with float32 accumulation; of float16 without bfloat16
    has_bfloat16: bool = True

    @property
    def num_bytes(self) -> int:
        """Memory in bytes."""
        return int(self.memory * 2**30)


# A peak rate is SMs x boost clock x operations per SM and clock. `half` is the rate with float32 accumulation and
# without sparsity, half the headline figure of GeForce cards and of data sheets "with sparsity". Memory is torch's
# `total_memory`, rounded down; it is less than the label says, and a driver may reserve some more.
CARDS = {
    card.name: card
    for card in (
        # GeForce: 512 operations. NVIDIA's whitepapers of Ampere GA102, Ada and RTX Blackwell.
        Card("rtx3060", 11.6, 25.5),  # 28 SMs at 1.777 GHz
        Card("rtx3090", 23.6, 71.2),  # 82 SMs at 1.695 GHz
        Card("rtx4060", 7.6, 30.2),  # 24 SMs at 2.46 GHz
        Card("rtx4080", 15.6, 97.5),  # 76 SMs at 2.505 GHz
        Card("rtx4090", 23.5, 165.2),  # 128 SMs at 2.52 GHz
        Card("rtx5090", 31.4, 209.5),  # 170 SMs at 2.407 GHz
        # Others: 1024 operations.
        # T4: Turing whitepaper, 40 SMs at 1.59 GHz.
        Card("t4", 14.6, 65.1, has_bfloat16=False),
        Card("l4", 22.0, 121),  # L4 data sheet: 242 with sparsity; 58 SMs at 2.04 GHz
        Card("a10", 22.0, 125),  # A10 data sheet; 72 SMs at 1.695 GHz
        # A10G, of AWS's G5: NVIDIA's sheet of it gives half an A10's operations in a clock; 80 SMs at 1.71 GHz.
        Card("a10g", 22.0, 70),
        Card("a6000", 47.4, 154.8),  # GA102 whitepaper, appendix C; 84 SMs at 1.8 GHz
        Card("l40s", 44.4, 362),  # L40S data sheet: 362 and 733 with sparsity; 142 SMs at 2.52 GHz
        # SXM modules. A100 data sheet: 2048 operations, 108 SMs at 1.41 GHz.
        Card("a100-40gb", 39.4, 312),
        Card("a100-80gb", 79.1, 312),
        # H100 and H200 data sheets, whose 1979 is with sparsity: 4096 operations, 132 SMs at 1.83 GHz.
        Card("h100", 79.1, 989),
        Card("h200", 139.8, 989),
    )
}


_WIDTH = 1024  # of matrices: a product takes some hundredths of a second on a core

# Words of a device's name that do not distinguish the cards above. An H100 on PCIe is slower, an A100 is not.
_WORDS = r"nvidia|geforce|tesla|rtx(?= a)|sxm\d?|(?<=a100-)pcie|(?<=a100 80gb )pcie|hbm\d\w*"


def find_card(name: str) -> Card:
    """Find a card by its name; case, spaces and hyphens are ignored."""
    for known, card in CARDS.items():
        if _plain(known) == _plain(name):
            return card
    known = ", ".join(
        f"`{card.name}` ({card.memory:.0f} GB)" for card in sorted(CARDS.values(), key=lambda card: card.memory)
    )
    raise ValueError(f"Unknown card `{name}`. Name one with as much memory: {known}.")


def card_of_device(device_name: str) -> Card | None:
    """Find a card by the name that its driver reports, e.g. `NVIDIA H100 80GB HBM3`; `None` for another model."""
    name = re.sub(_WORDS, "", device_name.lower())
    # Only versions of the A100 differ in their memory alone.
    names = _plain(name), _plain(re.sub(r"\d+ ?gb", "", name))
    return next((card for plain in names for known, card in CARDS.items() if _plain(known) == plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def peak_flops(device: "torch.device") -> float | None:
    """Peak rate of a device in half precision, in floating-point operations per second; `None` without a known GPU."""
    card = card_of_device(device_name(device))
    return None if card is None else card.half * 1e12


def product_flops() -> float:
    """Rate of products of matrices in float32 on this process's threads, in floating-point operations per second."""
    import torch

    matrix, seconds = torch.ones(_WIDTH, _WIDTH), []
    for _ in range(3):  # the first one also starts the threads
        started = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - started)
    return 2 * _WIDTH**3 / min(seconds)


def device_name(device: "torch.device") -> str:
    """Name of a GPU as its driver reports it, or the number of threads of a processor."""
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"


def total_memory(device: "torch.device") -> int:
    """Memory of the GPU in bytes; of the machine for any other device."""
    import torch

    is_gpu = device.type == "cuda"
    return torch.cuda.get_device_properties(device).total_memory if is_gpu else psutil.virtual_memory().total
