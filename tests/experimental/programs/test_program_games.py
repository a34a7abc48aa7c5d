"""Games of programs: killed in minting, with a disk that is full then, and attacked."""

import runpy
import signal
import time
from pathlib import Path

import psutil
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.config.sections import AttackSettings
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.experimental.attacks.fresh_attacker import AttackResult, run_attacks
from pvg_hf.experimental.judging.judged_round import JudgedRun
from pvg_hf.experimental.judging.trained_attacks import attacked_verifier
from pvg_hf.experimental.programs.sandbox.backends import make_backends
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import DRIVER, PROCESSES, branch_off, differing, play_in_process

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
        "reward": "gated_multiplicative",
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A game that nothing interrupts."""
    return play(load_recipe({**RECIPE, "output_dir": str(tmp_path_factory.mktemp("whole"))}))


def begin_minting(whole, place: Path, backend: str) -> tuple[RunFolder, dict]:
    """A copy of the game just before minting, and its recipe with another sandbox."""
    lacking = make_backends()[backend].lacking
    if lacking is not None:
        pytest.skip(lacking)
    options = {**RECIPE["task"]["options"], "sandbox": backend}
    recipe = {**RECIPE, "output_dir": str(place), "task": {**RECIPE["task"], "options": options}}
    return branch_off(whole, place, "round-000/mint"), recipe


@pytest.mark.parametrize("backend", ["bubblewrap", pytest.param("none", marks=pytest.mark.nightly)])
def test_a_game_killed_in_minting_resumes_and_leaves_no_process(backend, whole, tmp_path):
    killed, recipe = begin_minting(whole, tmp_path, backend)
    log = tmp_path / "log.txt"
    code, started = play_until_killed({"recipe": recipe, "signal": "SIGKILL", "moment": MOMENT}, log)
    assert code == -signal.SIGKILL, log.read_text()
    assert started  # the worker of the sandbox
    _, left = psutil.wait_procs(started, timeout=30)
    assert [process.cmdline()[:1] for process in left] == []
    play(load_recipe(recipe))
    assert differing(killed, whole) == []  # also if the other game's sandbox was another one
    finished = {
        event["phase"]: event for event in read_json_lines(killed.events) if event["event"] == "phase_finished"
    }
    assert finished["mint"]["task_use"]["cases/passed"] > 0
    isolation = make_backends()[backend].isolation
    assert read_json(killed.environment)["sandbox"] == isolation
    page = killed.report.read_text(encoding="utf-8")
    assert f"Programs ran in the sandbox <strong>{isolation.partition(',')[0]}" in page
    assert "Certificates and tests" in page


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["none", "bubblewrap"])
def test_a_disk_that_is_full_in_minting_is_one_clear_error(backend, whole, tmp_path):
    stopped, recipe = begin_minting(whole, tmp_path, backend)
    log = tmp_path / "log.txt"
    moment = {"event": "os.mkdir", "pattern": r"pool/\.round-000\.partial'"}
    assert play_in_process({"recipe": recipe, "max_file_size": 1000, "moment": moment}, log) == 1
    assert log.read_text().count("DiskFullError: The disk is full") == 1, log.read_text()
    assert not stopped.pool(0).exists()
    play(load_recipe(recipe))
    assert differing(stopped, whole) == []


@pytest.mark.nightly
def test_an_attack_on_a_verifier_of_programs_has_steps_to_exploit(whole, tmp_path):
    verifier = attacked_verifier(JudgedRun.open(whole.root).round(0))
    settings = AttackSettings(rewards=["gated_multiplicative", "src"], seeds=[0], max_steps=2, num_problems=4)
    run_attacks([verifier], settings, tmp_path, num_workers=1)
    results = [AttackResult.read(tmp_path / attack.name) for attack in verifier.attacks(settings)]
    assert [result.attack.reward for result in results] == ["gated_multiplicative", "src"]
    for result in results:
        assert 1 <= result.exploit.num_steps <= 2
        curve = result.curve()
        assert curve["step"].tolist() == list(range(1, result.exploit.num_steps + 1))
