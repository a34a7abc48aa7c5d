"""Describes the machine, and measures how fast it multiplies matrices."""

import platform
import time
from typing import Any

import psutil
import torch

from pvg_hf.core.versions import installed_versions
from pvg_hf.models.sources import has_bfloat16

PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "huggingface_hub",
    "bitsandbytes",
    "vllm",
    "deepspeed",
)
SIDE = {"cuda": 8192, "cpu": 1024}  # side of the square matrices of the timed product
REPEATS = 10


def probe_machine() -> dict[str, Any]:
    """
    Describe the machine.

    Returns: hardware and versions. `versions` has `None` for packages that are not installed, and `matrix_tflops` has
        the rate of a large matrix product by data type.
    """
    dtypes = (torch.bfloat16, torch.float32) if torch.cuda.is_available() else (torch.float32,)
    return {
        **_device(),
        "cores": psutil.cpu_count(logical=False),
        "ram_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "matrix_tflops": {str(dtype).removeprefix("torch."): round(matrix_rate(dtype) / 1e12, 2) for dtype in dtypes},
        "versions": {"python": platform.python_version(), **installed_versions(PACKAGES)},
    }


def _device() -> dict[str, Any]:
    if not torch.cuda.is_available():
        return {"cuda": False, "device": f"{platform.machine()}, {torch.get_num_threads()} threads"}
    properties = torch.cuda.get_device_properties(0)
    free, _ = torch.cuda.mem_get_info(0)
    return {
        "cuda": True,
        "device": properties.name,
        "num_devices": torch.cuda.device_count(),
        "memory_gb": round(properties.total_memory / 1e9, 1),
        "free_gb": round(free / 1e9, 1),
        "compute_capability": f"{properties.major}.{properties.minor}",
        "bf16": has_bfloat16(),
        "cuda_version": torch.version.cuda,
    }


def compute_dtype() -> torch.dtype:
    """Data type of the players' computations: bfloat16 on a GPU that supports it, else float32."""
    return torch.bfloat16 if has_bfloat16() else torch.float32


def matrix_rate(dtype: torch.dtype) -> float:
    """Measure the FLOP/s of a large matrix product of random numbers."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    side = SIDE[device]
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    left @ right
    synchronize()
    started = time.perf_counter()
    for _ in range(REPEATS):
        left @ right
    synchronize()
    return REPEATS * 2 * side**3 / (time.perf_counter() - started)


def synchronize() -> None:
    """Wait until the GPU has finished its queue; a no-op without a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def reset_peak() -> None:
    """Reset the peak of GPU memory; without a GPU, the peak is the process's and cannot be reset."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def read_peak() -> tuple[int, int]:
    """Peak bytes of tensors, and of torch's allocator; without a GPU, both are the process's peak resident memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    resident = psutil.Process().memory_info().rss
    return resident, resident
