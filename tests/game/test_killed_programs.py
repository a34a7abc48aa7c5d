"""A game of programs that is killed in minting resumes to the same bytes, and leaves no process of its sandbox behind."""

import runpy
import signal
import time

import psutil
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import read_json, read_json_lines
from tests.support.game_runs import DRIVER, PROCESSES, copy_until, differing

RECIPE = {
    "name": "programs",
    "num_rounds": 1,
    "device": "cpu",
    "task": {
        "name": "functions",
        "options": {"num_train": 80, "num_test": 6, "min_difficulty": 4, "max_difficulty": 5, "sandbox": "none"},
    },
    "split": {"verifier_share": 0.6},
    "bootstrap": {"solutions_per_problem": 6},
    "verifier": {"model": "functions", "max_steps": 1, "pairs_per_step": 4, "warmup_steps": 0},
    "prover": {
        "model": "functions",
        "reward": "gated",
        "reward_options": {"alpha": 0.2},
        "max_steps": 1,
        "prompts_per_step": 2,
        "num_generations": 2,
        "max_completion_length": 96,
    },
    "mint": {"solutions_per_problem": 1, "test_solutions_per_problem": 2},
    "evaluation": {"best_of_n": [2], "bootstrap_samples": 100},
    "watchdogs": {"min_pair_accuracy": 0.01},
}
MOMENT = {"event": "os.rename", "pattern": r"pool/\.round-000\.partial/sneaky\.parquet'"}


def play_until_killed(order: dict, log) -> tuple[int, set[psutil.Process]]:
    """Carry out an order of `game_driver.py`; return its exit code and the processes that it started."""
    arguments = (str(DRIVER), {"ORDER": {**order, "log": str(log)}}, "__main__")
    process = PROCESSES.Process(target=runpy.run_path, args=arguments)
    process.start()
    started: set[psutil.Process] = set()
    deadline = time.monotonic() + 200
    while process.exitcode is None and time.monotonic() < deadline:
        try:
            started |= set(psutil.Process(process.pid).children(recursive=True))
        except psutil.NoSuchProcess:  # it has ended since
            break
        process.join(0.02)
    process.join(10)
    return process.exitcode, started


@pytest.mark.slow
def test_a_game_killed_in_minting_resumes_and_leaves_no_process(tmp_path):
    whole = play(load_recipe({**RECIPE, "output_dir": str(tmp_path / "whole")}))
    killed = copy_until(whole, tmp_path / "killed", "round-000/mint")
    recipe, log = {**RECIPE, "output_dir": str(tmp_path / "killed")}, tmp_path / "log.txt"
    killed.recipe.unlink()
    code, started = play_until_killed({"recipe": recipe, "signal": "SIGKILL", "moment": MOMENT}, log)
    assert code == -signal.SIGKILL, log.read_text()
    assert started  # the worker of the sandbox
    _, left = psutil.wait_procs(started, timeout=30)
    assert [process.cmdline()[:1] for process in left] == []
    play(load_recipe(recipe))
    assert differing(killed, whole) == []
    finished = {
        event["phase"]: event for event in read_json_lines(killed.events) if event["event"] == "phase_finished"
    }
    assert finished["mint"]["sandbox"]["outcomes"]["passed"] > 0
    assert read_json(killed.environment)["sandbox"].startswith("none: no isolation")
    page = killed.report.read_text(encoding="utf-8")
    assert "Programs ran in the sandbox <strong>none: no isolation." in page
    assert "Certificates and tests" in page
