"""`tools/check_gpu.py`: a whole run on toy sizes, and how it continues after a part that failed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from pvg_hf import load_recipe
from pvg_hf.core.stopwatch import Spent
from pvg_hf.game.pilot import has_pilot
from tests.support.scripted_parts import Scripted, make_part
from tools.gpu_check import games, runner
from tools.gpu_check.games import GAMES
from tools.gpu_check.meter import Meter
from tools.gpu_check.parts import OUT_OF_MEMORY, PARTS, Part
from tools.gpu_check.runner import Check
from tools.gpu_check.stand_ins import CONFIGS, make_problems, published_settings
from tools.gpu_check.table import describe

REPOSITORY = Path(__file__).parents[2]


def _run(folder: Path, *parts: Part, **settings) -> tuple[int, dict]:
    check = Check(folder / "out", parts, **settings)
    status = check.run()
    assert sorted(path.name for path in check.output.iterdir()) == ["check_gpu.json", "check_gpu.md"]
    return status, json.loads(check.file.read_text())["parts"]


@pytest.mark.nightly
def test_a_failed_part_is_recorded_and_the_others_run(tmp_path):
    killed = make_part(
        "killed", "import os, signal; print('in the middle', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    large = make_part("large", f"sys.exit({OUT_OF_MEMORY})")
    slow = make_part("slow", "import time; time.sleep(60)", minutes=0.02)
    status, parts = _run(tmp_path, killed, large, slow, make_part("good"))
    assert status == 1
    assert {name: part["status"] for name, part in parts.items()} == {
        "killed": "failed",
        "large": "out of memory",
        "slow": "out of time",
        "good": "done",
    }
    assert parts["killed"]["last_lines"] == ["in the middle"]
    assert parts["killed"]["reason"] == f"exit status {-signal.SIGKILL}"
    assert {part["figures"]["number"] for part in parts.values()} == {1}  # what was measured before is kept


@pytest.mark.nightly
def test_the_next_call_runs_the_unfinished_parts(tmp_path):
    failing = make_part("first", "sys.exit(1)")
    _run(tmp_path, failing, make_part("second"))
    status, parts = _run(tmp_path, make_part("first"), make_part("second"))
    assert status == 0
    assert {name: part["figures"]["number"] for name, part in parts.items()} == {"first": 2, "second": 1}
    _, parts = _run(tmp_path, make_part("first"), make_part("second"), repeats=True)
    assert {name: part["figures"]["number"] for name, part in parts.items()} == {"first": 1, "second": 1}


@pytest.mark.nightly
def test_stand_ins_are_kept_until_every_part_is_done(tmp_path, monkeypatch):
    parts = [make_part("first"), make_part("second")]
    monkeypatch.setattr(runner, "PARTS", parts)
    _run(tmp_path, parts[0])
    assert (tmp_path / "out.work").exists()
    _run(tmp_path, *parts)
    assert not (tmp_path / "out.work").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, game in GAMES.items() if game.has_stand_ins])
def test_full_sizes_make_a_recipe(name, tmp_path):
    problems = {"task.path": make_problems(tmp_path / "problems", is_toy=False)}
    for run in GAMES[name].runs(name):
        recipe = games._shortened(GAMES[name], run, problems, tmp_path, is_toy=False)
        assert recipe.split.max_test <= 64
        assert not has_pilot(recipe)  # it would stop a game with random weights


def test_no_part_starts_without_enough_time(tmp_path):
    status, parts = _run(tmp_path, make_part("first"), seconds=5)
    assert (status, parts) == (1, {})


def test_a_package_that_is_missing_leaves_a_part_out(tmp_path):
    _, parts = _run(tmp_path, Scripted("part", "", 1, needs="no_such_package"))
    assert parts["part"] == {"status": "left out", "reason": "no_such_package is not installed"}


@pytest.mark.nightly
def test_a_stopped_call_ends_the_part_and_its_child_processes(tmp_path):
    child = tmp_path / "child"
    lines = (
        f"import subprocess; p = subprocess.Popen(['sleep', '60']); open({str(child)!r}, 'w').write(str(p.pid));"
        " p.wait()"
    )
    script = f"""
import sys
from pathlib import Path
from tools.gpu_check.runner import Check
from tests.support.scripted_parts import make_part
sys.exit(Check(Path({str(tmp_path)!r}) / "out", [make_part("part", {lines!r})]).run())
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    while not (child.exists() and child.read_text()):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    pid = int(child.read_text())
    assert (
        not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    )  # a child that is not waited for
    assert json.loads((tmp_path / "out" / "check_gpu.json").read_text())["parts"]["part"]["status"] == "stopped"


@pytest.mark.parametrize(
    ("name", "millions"), [("Qwen2.5-0.5B", 494.0), ("Qwen2.5-1.5B-Instruct", 1543.7), ("Qwen2.5-3B-Instruct", 3085.9)]
)
def test_the_configurations_are_those_of_the_models(name, millions):
    """The models' cards state 0.49, 1.54 and 3.09 B weights."""
    settings = published_settings(name)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[settings["model_type"]](**settings))
    assert model.num_parameters() / 1e6 == pytest.approx(millions, abs=0.1)


def test_every_recipe_that_is_played_by_stand_ins_has_their_configurations():
    for game in GAMES.values():
        recipe = load_recipe(REPOSITORY / "recipes" / game.recipe)
        names = [config.model.rpartition("/")[2] for config in (recipe.prover, recipe.verifier)]
        assert not game.has_stand_ins or all((CONFIGS / f"{name}.json").exists() for name in names)
    assert set(GAMES) == {part.name for part in PARTS} - {"probe", "tests"}


def test_stand_in_problems_are_as_long_as_those_of_gsm8k(tmp_path, monkeypatch):
    monkeypatch.delenv("PVG_GSM8K_DIR", raising=False)
    rows = [
        json.loads(line) for line in (make_problems(tmp_path, is_toy=False) / "train.jsonl").open(encoding="utf-8")
    ]
    lengths = [len(row["question"]) for row in rows]
    assert len(rows) == len({row["question"] for row in rows}) == 7473
    assert 225 < sum(lengths) / len(lengths) < 245  # 234.5 in the original


def test_the_first_steps_setup_is_left_out_of_the_rates(monkeypatch):
    # The first step takes 3 s and the others 1 s, each with 10 tokens; `training` is known at the end of each step.
    ends = [{"training": Spent(3.0, 10, 30.0)}, {"training": Spent(4.0, 20, 60.0)}, {"training": Spent(5.0, 30, 90.0)}]
    meter = Meter()
    for split in ends:
        monkeypatch.setattr("tools.gpu_check.meter.spent_so_far", lambda split=split: split)
        meter._end_step()
    assert meter.later_steps == {"training": Spent(2.0, 20, 60.0)}


def test_the_provers_phase_is_measured_first_and_every_phase_once():
    for name in ("gsm8k-small", "gsm8k", "gsm8k-qlora"):
        first, second = GAMES[name].runs(name)
        assert first.measured[0] == "prover"
        assert sorted([*first.measured, *second.measured]) == ["bootstrap", "evaluate", "mint", "prover", "verifier"]
        assert first.name != second.name


PHASE = {"peak_gb": 1.0, "worked_seconds": 10.0, "peak_over_planned": 1.0}


def test_goals_and_the_bottleneck_are_stated_at_the_end():
    prover = {
        **PHASE,
        "seconds_of": {"writing": 6.0, "training": 4.0, "other": 30.0},
        "training_mfu": 0.25,
        "writing_mfu": 0.006,
        "written_tokens_per_second": 1339.0,
    }
    verifier = {**PHASE, "seconds_of": {"training": 10.0}, "training_mfu": 0.19, "peak_over_planned": 1.2}
    figures = {
        "phases": {"prover": prover, "verifier": verifier},
        "hours": {"prover": 5.0, "verifier": 1.0},
        "weights": {"prover": 2e6, "verifier": 1e6},
        "three_copies_gb": 3.0,
        "note": "",
    }
    text = describe({"parts": {"gsm8k": {"status": "done", "seconds": 3.0, "figures": figures}}})
    goals = [
        line.split(" | ")[1:] for line in text.splitlines() if line.startswith("| MFU of") or "in every phase" in line
    ]
    assert [(measured, reached.strip(" |")) for measured, reached in goals] == [
        ("19.0 %", "no"),
        ("25.0 %", "yes"),
        ("1 (gsm8k prover) to 1.2 (gsm8k verifier)", "no"),
    ]
    # 6 of 10 s of a phase of 5 hours are 3 of the 6 hours.
    assert (
        text.splitlines()[-1]
        == "Bottleneck of `gsm8k`: writing in the phase `prover`, 50 % of the recipe's 6 hours (1,339 tokens a second,"
        " MFU 0.6 %)."
    )


def test_the_table_shows_phases_in_their_order():
    phase = {"peak_gb": 1.5, "planned_gb": 1.2, "writing_mfu": 0.031}
    figures = {
        "phases": {"prover": phase, "bootstrap": phase},
        "weights": {"prover": 2e6, "verifier": 1e6},
        "three_copies_gb": 3.0,
        "note": "",
    }
    lines = describe({"parts": {"gsm8k": {"status": "done", "seconds": 3.0, "figures": figures}}}).splitlines()
    assert [line.split(" | ")[1] for line in lines if line.startswith("| gsm8k")][:2] == ["bootstrap", "prover"]
    assert "3.1 %" in lines[2]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_part_reports_figures_on_toy_sizes(tmp_path):
    """
    The environment is as close as possible to one in which the package is not installed. `gsm8k-small` is left out,
    whose code is that of `gsm8k`.
    """
    parts = [part for part in PARTS if part.name != "gsm8k-small"]
    command = [sys.executable, "-m", "tools.check_gpu", "--toy", "--output", str(tmp_path / "out")]
    command += [word for part in parts for word in ("--only", part.name)]
    done = subprocess.run([*command, "--minutes", "29"], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    results = json.loads((tmp_path / "out" / "check_gpu.json").read_text())
    assert set(results["parts"]) == {part.name for part in parts}
    for part in parts:
        record = results["parts"][part.name]
        assert record["status"] == ("left out" if part.needs_gpu else "done")
        if part.name in GAMES and not part.needs_gpu:
            phases = record["figures"]["phases"]
            wanted = set(GAMES[part.name].phases or ("bootstrap", "verifier", "prover", "mint", "evaluate"))
            assert wanted <= set(phases)
            assert all(figures["peak_over_planned"] > 0 for figures in phases.values())
            assert phases["prover"]["written_tokens_per_second"] > 0
            assert phases["prover"]["step_seconds"] > 0
            assert phases["prover"]["training_mfu"] > 0
    assert results["parts"]["tests"]["figures"]["num_collected"] > 5
    assert describe(results) in done.stdout
    assert (tmp_path / "out.work").exists()  # for the part that was left out
