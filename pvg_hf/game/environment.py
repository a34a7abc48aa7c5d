"""What a run was played with."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from pvg_hf.config import Recipe
from pvg_hf.game.console import launcher

PACKAGES = ("pvg_hf", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "huggingface_hub", "numpy")


def describe_environment(recipe: Recipe, processes: PartialState) -> dict[str, Any]:
    """Versions, git revision, machine, processes, threads and seed; equal bytes are promised for equal ones."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "versions": {"python": platform.python_version(), **{name: installed_version(name) for name in PACKAGES}},
        "git_revision": git_revision(),
        "machine": {"processor": platform.machine(), "system": platform.system(), "gpus": gpus},
        "launcher": launcher(),
        "num_processes": processes.num_processes,
        "device": processes.device.type,
        "num_threads": torch.get_num_threads(),
        "seed": recipe.seed,
    }


def installed_version(package: str) -> str | None:
    """`None` for one that is imported from a source tree and is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_revision() -> str | None:
    """The commit of the source tree; `None` for an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None
