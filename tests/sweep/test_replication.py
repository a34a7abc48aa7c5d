"""One recipe with several seeds."""

import json
import re
import shutil
from pathlib import Path

import pytest

from pvg_hf.config import load_recipe
from pvg_hf.evaluation.seeds import mean_over_seeds, show_figure
from pvg_hf.run.read import load_run
from pvg_hf.sweep.replication import (
    ACCEPTED_IN_ALL_POOLS,
    means_table,
    replicate,
    replicate_recipe,
    tabulate_replication,
)

REPOSITORY = Path(__file__).parents[2]


def test_means_over_seeds_by_hand(make_run, tmp_path):
    run = make_run(2)
    other = shutil.copytree(run, tmp_path / "other")
    path = other / "evaluation" / "round-000" / "metrics.json"
    values = json.loads(path.read_text())
    first = values["round/accuracy/helpful"]["value"]
    values["round/accuracy/helpful"]["value"] = first - 0.125
    path.write_text(json.dumps(values))
    header, _, *rows = [
        line.strip("| ").split(" | ") for line in means_table([load_run(run), load_run(other)]).splitlines()
    ]
    assert header[-2:] == ["round 0", "round 1"]
    table = {row[0]: row[1:] for row in rows}
    assert table["accuracy/helpful"][0] == show_figure(mean_over_seeds([first, first - 0.125]))
    assert table["accuracy/helpful"][0].endswith("(n=2)")
    cells = [json.loads((run / "evaluation" / f"round-00{k}" / "metrics.json").read_text()) for k in (0, 1)]
    figures = {**cells[0], **cells[1]}
    last = [figures[f"round/pools/accepted/round-001/{pool}"]["value"] for pool in ("base", "round-000", "round-001")]
    assert table[ACCEPTED_IN_ALL_POOLS][1].startswith(f"{sum(last) / 3:.3f}")


def test_games_are_played_once_and_tabulated(tmp_path, make_recipe):
    recipe = load_recipe(make_recipe(tmp_path, num_rounds=1))
    with pytest.raises(ValueError, match="No seed of"):
        tabulate_replication(recipe, [3])
    replicate(recipe, [3])
    weights = sorted((tmp_path / f"{recipe.name}-seed-3" / "verifier").rglob("*.safetensors"))
    before = [path.stat().st_mtime_ns for path in weights]
    assert before
    text = tabulate_replication(recipe, [3, 4])  # seed 4 has not begun
    assert "Means over 1 seed(s)" in text
    (raw,) = json.loads((tmp_path / f"{recipe.name}-replication.json").read_text())
    assert (raw["seed"], list(raw["rounds"])) == (3, ["0"])
    replicate(recipe, [3])
    assert [path.stat().st_mtime_ns for path in weights] == before


ARMS = re.findall(
    r"`(name=arithmetic-[^`]+)`", (REPOSITORY / "docs/experiments/dynamics.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("overrides", ARMS)
def test_arms_of_the_reference_experiment_are_valid(overrides):
    recipe = load_recipe(REPOSITORY / "recipes/arithmetic.yaml", overrides.split())
    assert replicate_recipe(recipe, 2).name == f"{recipe.name}-seed-2"


def test_the_plan_of_the_reference_experiment_names_its_arms():
    assert len(ARMS) == 4
