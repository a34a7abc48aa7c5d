"""A sweep from its recipe to its tables and plots; stopped and resumed."""

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from pvg_hf import load_recipe
from pvg_hf.config import RecipeError
from pvg_hf.core.integrity import read_json
from pvg_hf.experimental.sweep import describe_sweep, run_sweep
from pvg_hf.experimental.sweep.cells import Cell
from pvg_hf.experimental.sweep.measures import MEASURES
from pvg_hf.run.jobs import JobFolder
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import play_in_process
from tests.support.job_work import one_thread

VERIFIER_MEASURES = ["pair_accuracy", "auc", "clean_loss", "parameter_distance"]
CLEAN, NOISY = Cell(0, 0.0, "none"), Cell(0, 0.2, "none")


def _figures(folder: JobFolder) -> dict[str, dict]:
    return {path.stem: read_json(path)["figures"] for path in (folder.root / "cells").glob("*.json")}


def test_every_cell_has_its_figures(swept):
    figures = _figures(swept)
    assert figures.keys() == {CLEAN.name, NOISY.name, Cell(0, 0.2, "forward").name}
    assert all(list(cell) == sorted(VERIFIER_MEASURES) for cell in figures.values())
    assert figures[CLEAN.name]["parameter_distance"]["value"] == 0
    assert figures[NOISY.name]["parameter_distance"]["value"] > 0


def test_all_cells_learn_from_the_solutions_that_were_minted_once(swept):
    def texts(run: RunFolder, column: str) -> list:
        return pd.read_parquet(run.pool(-1) / "base.parquet")[column].tolist()

    minted = texts(swept.run("seed-0-pool"), "solution")
    for cell in (CLEAN, NOISY):
        assert texts(swept.run(cell.name), "solution") == minted
    correct = texts(swept.run(CLEAN.name), "correct")
    assert texts(swept.run(NOISY.name), "correct") == correct
    assert texts(swept.run(CLEAN.name), "label") == correct
    assert texts(swept.run(NOISY.name), "label") != correct


def test_tables_have_the_cells_and_their_change_from_the_clean_one(swept):
    table = pd.read_csv(swept.root / "cells.csv")
    assert list(table["correction"]) == ["none", "none", "forward", "forward"]
    assert list(table["level"]) == [0, 0.2, 0, 0.2]  # at 0 both have the clean cell
    figures = _figures(swept)
    for name in VERIFIER_MEASURES:
        clean, noisy = (figures[cell.name][name]["value"] for cell in (CLEAN, NOISY))
        assert table[name].iloc[:2].tolist() == pytest.approx([clean, noisy])
        assert table[f"{name}_change"].iloc[:2].tolist() == pytest.approx([0, noisy - clean])
    fits = pd.read_csv(swept.root / "fits.csv")
    slope = fits[(fits["measure"] == "auc") & (fits["correction"] == "none")]["coefficient"].item()
    assert slope == pytest.approx(table["auc_change"].iloc[1] / 0.2)


def test_raw_results_are_json_and_the_plots_are_vectors_and_png(swept):
    raw = json.loads((swept.root / "results.json").read_text(), parse_constant=pytest.fail)
    assert [cell["level"] for cell in raw["cells"]] == [0, 0.2, 0.2]
    begins = {".pdf": b"%PDF", ".svg": b"<?xml", ".png": b"\x89PNG"}
    for name in ("levels", "fits"):
        for suffix, begin in begins.items():
            assert (swept.plots / f"{name}{suffix}").read_bytes().startswith(begin)
    summary = swept.summary.read_text()
    assert all(MEASURES[name].title in summary for name in VERIFIER_MEASURES)
    assert "Against `none` at the same level" in summary


@pytest.mark.nightly
def test_a_killed_sweep_resumes_with_the_next_cell(swept, make_sweep, repository, tmp_path):
    recipe, log = tmp_path / "recipe.json", tmp_path / "log.txt"
    recipe.write_text(json.dumps(make_sweep(tmp_path)))
    script = {"arguments": ["sweep", str(recipe), "--workers", "1"]}
    moment = {"event": "os.rename", "pattern": r"cells/seed-0-level-0.2-\w+\.json'", "count": 1}
    code = play_in_process({**script, "signal": "SIGKILL", "moment": moment}, log)
    assert code == -signal.SIGKILL, log.read_text()
    folder = JobFolder(tmp_path / "levels")
    assert [path.name for path in (folder.root / "cells").glob("[!.]*.json")] == [f"{CLEAN.name}.json"]
    before = folder.result(CLEAN.name).stat().st_mtime_ns
    code = play_in_process(script, log)
    assert code == 0, log.read_text()
    assert folder.result(CLEAN.name).stat().st_mtime_ns == before
    assert _figures(folder) == _figures(swept)


@pytest.mark.nightly
def test_a_failed_cell_is_named_and_the_others_run(swept, make_sweep, repository, tmp_path):
    folder, forward = JobFolder(tmp_path / "levels"), Cell(0, 0.2, "forward")
    shutil.copytree(swept.root, folder.root)
    for cell in (NOISY, forward):
        folder.result(cell.name).unlink()
    shutil.rmtree(folder.run(NOISY.name).root)
    played = folder.run(forward.name).read_recipe()  # of a run that was begun otherwise than the sweep would
    folder.run(forward.name).write_recipe(replace(played, verifier=replace(played.verifier, max_steps=9)))
    recipe, log = tmp_path / "recipe.json", tmp_path / "log.txt"
    recipe.write_text(json.dumps(make_sweep(tmp_path)))
    script = {"arguments": ["sweep", str(recipe), "--workers", "1"]}
    assert play_in_process(script, log) == 2, log.read_text()
    assert "1 of 3 jobs have no result:\n- seed 0, level 0.2, forward: " in log.read_text()
    assert "verifier.max_steps" in log.read_text()
    finished = {name: figures for name, figures in _figures(swept).items() if name != forward.name}
    assert _figures(folder) == finished
    assert len(pd.read_csv(folder.root / "cells.csv")) == len(pd.read_csv(swept.root / "cells.csv")) - 1


@pytest.mark.nightly
def test_the_script_in_two_processes(swept, make_sweep, repository, tmp_path):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(make_sweep(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-m", "pvg_hf", "sweep", str(recipe), "--workers", "2"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# levels\n")
    assert "3/3" in done.stderr
    mine, theirs = _figures(JobFolder(tmp_path / "levels")), _figures(swept)
    assert mine.keys() == theirs.keys()
    for name, figures in mine.items():
        assert figures["auc"]["n"] == theirs[name]["auc"]["n"]
        assert figures["auc"]["value"] == pytest.approx(theirs[name]["auc"]["value"], abs=0.02)  # of other threads


def test_cells_can_be_whole_games_on_any_executor(make_sweep, tmp_path):
    sweep = {"form": "game", "levels": [0], "seeds": [0], "corrections": ["none"]}
    with one_thread() as executor:
        folder = run_sweep(load_recipe(make_sweep(tmp_path, sweep=sweep, num_rounds=1)), executor=executor)
    figures = _figures(folder)[CLEAN.name]
    assert figures.keys() == {*MEASURES, "base_helpful_accuracy"}
    told = read_json(folder.run(CLEAN.name).evaluation(0) / "metrics.json")
    assert figures["helpful_accuracy"] == told["round/accuracy/helpful"]
    assert figures["prover_success"] == told["round/exploit_rate"]


@pytest.fixture
def begun(swept, make_sweep, tmp_path):
    """Makes recipes of the finished sweep, whose folder records that it was begun."""
    (tmp_path / "levels").mkdir()
    (tmp_path / "levels" / "sweep.yaml").write_bytes(swept.recipe.read_bytes())
    return lambda **changes: load_recipe(make_sweep(tmp_path, **changes))


def test_levels_may_be_added_and_nothing_else_changed(begun):
    more = {"levels": [0, 0.2, 0.3], "seeds": [0, 1], "corrections": ["none", "forward", "backward"]}
    described = describe_sweep(begun(sweep=more), num_workers=2)
    assert "Cells    14: 6 none, 4 backward, 4 forward" in described
    with pytest.raises(ValueError, match=r"(?s)another recipe:\n- `verifier.max_steps`: 8 .* 9 .*`name`"):
        describe_sweep(begun(verifier__max_steps=9))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sweep": None}, "has no section `sweep`"),
        ({"noise": {"epsilon": 0.1}}, "leave them out"),
        ({"noise": {"checker": {}}}, "leave them out"),
        (
            {"rounds": {0: {"verifier": {"correction": "forward"}}}},
            r"`rounds\.0\.verifier\.correction: forward` would",
        ),
        ({"rounds": {0: {"noise": {"rho1": 0.3}}}}, r"`rounds\.0\.noise\.rho1: 0\.3` would"),
        ({"sweep__levels": [0, 0.6]}, r"At level 0.6 with `\w+`(?s:.*)noise.epsilon"),
        ({"verifier__center": 0.0, "sweep__corrections": ["backward"]}, "center"),
    ],
)
def test_mistakes_are_reported_before_any_training(changes, told, make_sweep, tmp_path):
    with pytest.raises(RecipeError, match=told):
        run_sweep(load_recipe(make_sweep(tmp_path, **changes)), num_workers=1)
    assert not (tmp_path / "levels").exists()
