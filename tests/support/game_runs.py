"""Helpers for runs: copy an earlier state of one, play one in another process, compare the bytes of two."""

import json
import multiprocessing
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pvg_hf import load_recipe, play
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import DIGESTS, read_json, read_json_lines
from pvg_hf.run.layout import RunFolder, schedule

DRIVER = Path(__file__).parent / "game_driver.py"
# Every process is the child of a server that has imported everything already: it costs no import.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pvg_hf.game.play"])


def prover_steps(folder: RunFolder, round_index: int = 0) -> dict[int, dict[str, Any]]:
    """Lines of a prover phase's log that belong to a step, by step."""
    lines = read_json_lines(folder.prover(round_index) / "metrics.jsonl")
    return {line["step"]: line for line in lines if line["step"] is not None}


def play_in_process(order: dict[str, Any], log: Path) -> int:
    """
    Carry out an order of `game_driver.py` in a process of its own.

    Returns:
        `int`: its exit code; that of a process which was killed is the signal's number, negative.
    """
    process = start_process(order, log)
    process.join(timeout=400)
    assert process.exitcode is not None, f"still running after 400 seconds:\n{log.read_text()}"
    return process.exitcode


def start_process(order: dict[str, Any], log: Path) -> BaseProcess:
    """Start a process that carries out an order of `game_driver.py`."""
    arguments = (str(DRIVER), {"ORDER": {**order, "log": str(log)}}, "__main__")
    process = PROCESSES.Process(target=runpy.run_path, args=arguments)
    process.start()
    return process


def start_two(order: dict[str, Any], log: Path) -> subprocess.Popen:
    """Start two processes that run an order of `game_driver.py`, on a free port."""
    file = log.with_suffix(".json")
    file.write_text(json.dumps(order))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", DRIVER, file]
    return subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT)


def copy_until(finished: RunFolder, output_dir: Path, phase: str) -> RunFolder:
    """Copy a run as it was just before `phase` (`round-000/prover`)."""
    folder = RunFolder(output_dir / finished.root.name)
    shutil.copytree(finished.root, folder.root)
    phases = schedule(load_recipe(finished.recipe))
    for key in phases[list(map(str, phases)).index(phase) :]:
        shutil.rmtree(key.target(folder))
    return folder


def branch_off(finished: RunFolder, output_dir: Path, phase: str) -> RunFolder:
    """Copy a run as it was just before a phase, so that another recipe can continue it: as one without settings."""
    folder = copy_until(finished, output_dir, phase)
    folder.recipe.unlink()
    forget_settings(folder.root)
    return folder


def whole_and_killed(
    finished: RunFolder, place: Path, make_recipe: Callable[..., dict[str, Any]], changes: dict[str, Any], file: str
) -> list[RunFolder]:
    """
    The first round's prover phase, played without interruption in one run; in another it is killed when a file is
    opened whose name matches `file`, and resumed.
    """
    runs = []
    for name in ("whole", "killed"):
        runs.append(branch_off(finished, place / name, "round-000/prover"))
        recipe = make_recipe(place / name, **changes)
        if name == "killed":
            order = {"signal": "SIGKILL", "moment": {"event": "open", "pattern": file}}
            order |= {"phase": "prover", "round_index": 0, "recipe": recipe}
            assert play_in_process(order, place / "log.txt") == -9
        play(load_recipe(recipe), phase="prover", round_index=0)
    return runs


def forget_settings(root: Path) -> None:
    """Remove the settings that phases were played with, as if an older version had played them."""
    for file in root.rglob(DIGESTS):
        write_json(file, {name: value for name, value in read_json(file).items() if name != "settings"})


def forget_digests(root: Path) -> None:
    """Allow the files of a run to be changed: without digests, they are not compared."""
    for file in root.rglob(DIGESTS):
        file.unlink()


def bytes_of(folder: RunFolder) -> dict[str, bytes]:
    """Contents of all files that are promised to be equal, by path in the run's folder."""
    patterns = ("**/*.parquet", "**/*.safetensors", "**/metrics.jsonl", "evaluation/*/metrics.json")
    files = [path for pattern in patterns for path in folder.root.glob(pattern)]
    return {str(path.relative_to(folder.root)): path.read_bytes() for path in files}


def check_same_so_far(folder: RunFolder, other: RunFolder) -> None:
    """Check that an unfinished run equals another one in the files that it has."""
    mine, others = bytes_of(folder), bytes_of(other)
    metrics = mine.pop("metrics.jsonl")
    assert mine
    assert [name for name in mine if mine[name] != others.get(name)] == []
    assert others["metrics.jsonl"].startswith(metrics)


def differing(folder: RunFolder, other: RunFolder) -> list[str]:
    """Paths of the files that one run lacks, or that differ between the runs."""
    mine, others = bytes_of(folder), bytes_of(other)
    assert mine
    return sorted(name for name in mine.keys() | others.keys() if mine.get(name) != others.get(name))
