"""Runs scripts of this folder with torchrun."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run_on_two_processes(script: str, *arguments: str | Path) -> None:
    """Run `script`, a file's name, on two processes of one thread; its errors fail the test."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    paths = {"PYTHONPATH": str(HERE.parent.parent)}
    environment = {**os.environ, **paths, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *launch, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
