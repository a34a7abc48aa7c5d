"""The parts of the check, the most informative first, and the command that starts each."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT_OF_MEMORY = 3  # exit status of a part that did not fit
LAUNCHERS = ROOT / "recipes" / "accelerate"


@dataclass(frozen=True)
class Part:
    """
    A part of the check.

    Args:
        name: Name on the command line.
        about: Description in one line.
        minutes: Time limit.
        steps: Phases that need separate processes; by default, one process plays all phases.
        launcher: File in `recipes/accelerate/` with which its process is launched.
        needs: Package without which the part is skipped.
        needs_gpu: Whether the part is skipped without a GPU.
    """

    name: str
    about: str
    minutes: float
    steps: tuple[str, ...] = ("",)
    launcher: str | None = None
    needs: str | None = None
    needs_gpu: bool = False

    def command(self, step: str, *, work: Path, result: Path, is_toy: bool) -> list[str]:
        """Command that starts the process of a step."""
        worker = ["-m", "tools.gpu_check.worker", self.name, "--work", str(work), "--result", str(result)]
        worker += ["--toy"] if is_toy else []
        worker += ["--phases", step] if step else []
        if self.launcher is None:
            return [sys.executable, *worker]
        if is_toy:  # accelerate shards on accelerators only
            return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "1", *worker]
        launcher = ["-m", "accelerate.commands.launch", "--config_file", str(LAUNCHERS / self.launcher)]
        return [sys.executable, *launcher, "--num_processes", "1", *worker]


PHASE_BY_PHASE = ("bootstrap", "verifier", "prover")
PARTS = (
    Part("probe", "the machine: GPU, memory, bfloat16, matrix rate, versions", 3),
    Part("gsm8k", "recipes/gsm8k.yaml: every phase, a few steps", 10),
    Part("tests", "the tests marked `gpu`", 6),
    Part("gsm8k-small", "recipes/gsm8k-small.yaml: every phase, a few steps", 10),
    Part("gsm8k-qlora", "recipes/gsm8k-qlora.yaml: every phase, a few steps", 12),
    Part("fsdp", "FSDP2 with one process: bootstrap, verifier, prover", 5, launcher="fsdp.yaml"),
    Part("continuous", "transformers' continuous batching: bootstrap, verifier, prover", 6, needs_gpu=True),
    Part("vllm", "vLLM in the same process: bootstrap, verifier, prover", 8, PHASE_BY_PHASE, None, "vllm", True),
    Part(
        "zero3",
        "ZeRO-3 with one process: bootstrap, verifier, prover",
        6,
        PHASE_BY_PHASE,
        "zero3.yaml",
        "deepspeed",
        True,
    ),
    Part("arithmetic-gpu", "recipes/arithmetic-gpu.yaml: one round as it is", 25),
)


def environment() -> dict[str, str]:
    """
    Environment of a part's processes: offline, without progress output, and with the repository on the module path.
    """
    places = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
