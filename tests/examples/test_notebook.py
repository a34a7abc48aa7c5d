"""
`examples/notebooks/choose_and_play.ipynb` runs from the first cell to the last, with a small game in place of its own.
"""

import json
from pathlib import Path

import matplotlib
import pytest

from pvg_hf import load_recipe
from pvg_hf.cli.main import main
from pvg_hf.config.load import read_yaml
from pvg_hf.core.project import CARD_VALUES

FOLDER = Path(__file__).parents[2]
CELLS = json.loads((FOLDER / "examples/notebooks/choose_and_play.ipynb").read_text())["cells"]
# Settings that replace the notebook's; the rest of its recipe is played as it is.
SMALL = {
    "device": "cpu",
    "task": {"name": "arithmetic", "options": {"num_train": 60, "num_test": 12}},
    "split": {"verifier_share": 0.7, "heldout_share": 0.3},
    "bootstrap": {"solutions_per_problem": 2},
    "verifier": {"max_steps": 4, "pairs_per_step": 8, "learning_rate": 1e-3},
    "stopping": {"rule": "max_steps"},
    "watchdogs": {"min_pair_accuracy": 0.0},
    "evaluation": {"best_of_n": [2], "bootstrap_samples": 100},
}
SMALL_PROVER = {"max_steps": 2, "prompts_per_step": 2, "num_generations": 2, "max_completion_length": 72}


def _own_recipe() -> dict:
    (cell,) = [cell for cell in CELLS if "parameters" in cell["metadata"].get("tags", [])]
    names: dict = {}
    exec("".join(cell["source"]), names)
    return names["RECIPE"]


def test_the_notebook_installs_the_project_and_names_the_models_of_the_recipe():
    assert f'"pvg_hf @ {CARD_VALUES["install"].removeprefix("pip install ")}"' in "".join(CELLS[1]["source"])
    recipe, packaged = load_recipe(_own_recipe()), read_yaml(FOLDER / "recipes/gsm8k-small.yaml")
    assert recipe.task.name == "gsm8k"
    for player in ("prover", "verifier"):
        assert recipe.player(player).model == packaged[player]["model"]


@pytest.mark.game
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    own = _own_recipe()
    kept = {key: own["prover"][key] for key in ("roles", "lora", "beta", "temperature")}
    small = {**own, **SMALL, "prover": {**kept, **SMALL_PROVER, "learning_rate": 4e-3}}
    names: dict = {}
    for cell in CELLS:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.startswith("%pip"):
            continue
        if "parameters" in cell["metadata"].get("tags", []):
            names["RECIPE"] = small
        elif source.startswith("!"):
            assert main(source.removeprefix("!pvg ").split()) == 0
        else:
            exec(source, names)
    assert Path("round.png").stat().st_size > 1000
    assert list(names["table"].columns) == ["before", "after"]
    assert names["table"].notna().all(axis=None)
    assert len(names["chosen"]) == 12
