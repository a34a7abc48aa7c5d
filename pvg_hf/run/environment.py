"""Describes what a run is played with: versions, machine, launcher and processes."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from pvg_hf.config import Recipe
from pvg_hf.core.versions import installed_versions

if TYPE_CHECKING:
    from accelerate import PartialState

PACKAGES = ("pvg_hf", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "huggingface_hub", "numpy")


def describe_environment(recipe: Recipe, processes: "PartialState") -> dict[str, Any]:
    """
    Versions, git revision, machine, processes, threads and seed.

    Two runs of one recipe give the same bytes if all of these are equal.
    """
    import torch  # late: the other functions do not need it, and loading it takes seconds

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "versions": {"python": platform.python_version(), **installed_versions(PACKAGES)},
        "git_revision": git_revision(),
        "machine": {"processor": platform.machine(), "system": platform.system(), "gpus": gpus},
        "launcher": launcher(),
        "num_processes": processes.num_processes,
        "device": processes.device.type,
        "num_threads": torch.get_num_threads(),
        "seed": recipe.seed,
    }


def git_revision() -> str | None:
    """Commit of the source tree; `None` for an installed package."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (subprocess.CalledProcessError, FileNotFoundError):
        return None


def num_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def is_launched() -> bool:
    """Whether a launcher started this process and watches it."""
    return is_by_accelerate() or "TORCHELASTIC_RUN_ID" in os.environ


def is_by_accelerate() -> bool:
    """Whether `accelerate launch` started this process."""
    # It always sets the variable, which may also come from a shell or from an outer process.
    names = {Path(word).name.split(".")[0] for word in _parent_command()[:3]}
    return "ACCELERATE_MIXED_PRECISION" in os.environ and not names.isdisjoint({"accelerate", "accelerate-launch"})


@cache
def _parent_command() -> list[str]:
    """Command line of the parent process at the first call: the launcher may end before this process."""
    try:
        return psutil.Process(os.getppid()).cmdline()
    except psutil.Error:  # it has ended, or belongs to another user
        return []


def processes_asked() -> int:
    """Number of processes on the command line of `accelerate launch`; 1 if it has none, or did not start this one."""
    words = " ".join(_parent_command() if is_by_accelerate() else []).replace("-", "_").replace("=", " ").split()
    place = words.index("__num_processes") + 1 if "__num_processes" in words else len(words)
    return int(words[place]) if place < len(words) and words[place].isdecimal() else 1


def is_alone() -> bool:
    """Whether this is the only process of the run."""
    return os.environ.get("WORLD_SIZE", "1") == "1"


def has_default_threads() -> bool:
    """Whether this is the only process of `accelerate launch`, which by default sets the number of threads to 1."""
    return is_by_accelerate() and is_alone() and os.environ.get("OMP_NUM_THREADS") == "1"


def launcher() -> str:
    """Command that started this process, up to the script."""
    if is_by_accelerate():
        on_cpu = " --cpu" if os.environ.get("ACCELERATE_USE_CPU") == "True" else ""
        return f"accelerate launch{on_cpu} --num_processes {os.environ.get('WORLD_SIZE', '1')}"
    return f"torchrun --nproc_per_node {os.environ['LOCAL_WORLD_SIZE']}" if is_launched() else "python"


def launcher_for(num_processes: int) -> str:
    """Command that starts `num_processes` processes, up to the script."""
    return "python" if num_processes == 1 else f"accelerate launch --num_processes {num_processes}"


def script_line(*words: str, without: Iterable[str] = ()) -> str:
    """
    What follows the launcher: the script or module that this process runs with its arguments, quoted for a shell.

    What only looks at a game (`pvg status`, `pvg plan`) stands for the command that plays it.
    """
    program, *arguments = sys.argv
    file = Path(program).resolve()
    if file.parent.name == "scripts":
        before = sys.argv
    elif file.parent.name == "experiments":
        before = ["-m", f"experiments.{file.stem}", *arguments]
    else:  # the command `pvg`, or a program of the user's
        is_pvg = Path(program).name == "pvg" or Path(program).parts[-2:] == ("pvg_hf", "__main__.py")
        command, *others = arguments if is_pvg and arguments else ["play", "RECIPE"]
        before = ["-m", "pvg_hf", "play" if command in ("status", "plan", "pilot") else command, *others]
    dropped = frozenset(without)
    return shlex.join([*(word for word in before if word not in dropped), *words])


def full_command(launcher: str, line: str) -> str:
    """Join a launcher and a [`script_line`]; `python -m pvg_hf` is written as `pvg`."""
    command, module = f"{launcher} {line}", "python -m pvg_hf"
    return f"pvg{command.removeprefix(module)}" if command.startswith(module) else command


def command_line() -> str:
    """The command that started this process."""
    return full_command(launcher(), script_line())
