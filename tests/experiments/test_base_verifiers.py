"""Models that a verifier may start from, compared by small games."""

import json
import runpy
import shutil
import sys
from math import isnan
from pathlib import Path

import pandas as pd
import pytest

from experiments.base_verifiers import base_game_recipe, bases_table, label, play_bases
from pvg_hf import load_recipe
from pvg_hf.core.integrity import read_json
from pvg_hf.models.verifier_model import load_verifier
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import forget_digests

SMALL = {"name": "small", "num_rounds": 2, "verifier__max_steps": 2, "prover__max_steps": 2}


@pytest.fixture(scope="module")
def models(player, reference, tmp_path_factory) -> tuple[str, str]:
    """A language model, and a classifier with a trained head, which states its pretraining."""
    folder = tmp_path_factory.mktemp("models")
    judge = Path(shutil.copytree(reference.verifier(0), folder / "judge"))
    config = read_json(judge / "config.json")
    (judge / "config.json").write_text(json.dumps({**config, "pretraining_flops": 3e6}))
    forget_digests(judge)
    return str(shutil.copytree(player, folder / "plain")), str(judge)


@pytest.fixture(scope="module")
def compared(models, make_recipe, player, tmp_path_factory):
    """The comparison over one seed; tests read it and never write to it."""
    prover = Path(shutil.copytree(player, tmp_path_factory.mktemp("prover") / "prover"))
    config = read_json(prover / "config.json")
    (prover / "config.json").write_text(json.dumps({**config, "pretraining_flops": 1e9}))
    recipe = load_recipe(make_recipe(tmp_path_factory.mktemp("bases"), prover__model=str(prover), **SMALL))
    return recipe, play_bases(recipe, models, [0])


def test_a_classifier_keeps_its_head_and_a_language_model_gets_a_new_one(compared, models):
    recipe, _ = compared
    plain, judge = (base_game_recipe(recipe, (0, model)) for model in models)
    assert (plain.verifier.head, judge.verifier.head) == ("new", "keep")
    assert (plain.name, judge.name) == ("small-plain-seed-0", "small-judge-seed-0")
    assert (plain.verifier.model, judge.verifier.model) == models


def test_figures_are_those_of_the_games(compared, models):
    recipe, folder = compared
    table = pd.read_csv(folder.root / "games.csv").set_index("model")
    assert list(table.index) == ["plain", "judge"]
    for model in models:
        game = (0, model)
        found = read_json(RunFolder.of(base_game_recipe(recipe, game)).evaluation(1) / "metrics.json")
        first = read_json(RunFolder.of(base_game_recipe(recipe, game)).evaluation(0) / "metrics.json")
        row = table.loc[label(model)]
        assert row["auc_first"] == pytest.approx(first["round/pools/auc/round-000/base"]["value"])
        assert row["auc_last"] == pytest.approx(found["round/pools/auc/round-001/base"]["value"])
        assert row["accepted_first"] == pytest.approx(first["round/pools/accepted/round-000/round-000"]["value"])
        assert row["accepted_last"] == pytest.approx(found["round/pools/accepted/round-001/round-000"]["value"])
    assert isnan(table.loc["plain", "auc_untrained"])
    assert 0 <= table.loc["judge", "auc_untrained"] <= 1
    assert isnan(table.loc["plain", "pretraining_share"])
    assert table.loc["judge", "pretraining_share"] == pytest.approx(3e-3)
    assert table.loc["judge", "num_parameters"] == load_verifier(models[1])[0].num_parameters()


def test_the_table_has_a_row_for_each_model_with_means_over_seeds():
    rows = [
        {"seed": seed, "model": "a", "num_parameters": 1200, "pretraining_share": 0.015, "auc_untrained": auc}
        for seed, auc in enumerate((0.6, 0.8))
    ]
    table = pd.DataFrame(rows).assign(auc_first=0.7, auc_last=0.75, accepted_first=0.5, accepted_last=float("nan"))
    cells = [cell.strip() for cell in bases_table(table).splitlines()[2].split("|")]
    # The mean .7 of two seeds, with the interval 12.706 * .1 by Student's t with one degree of freedom.
    assert cells[1:6] == ["a", "1,200", "1.5e-02", "2", "0.700 [-0.571, 1.971]"]
    assert cells[-2] == "none"


def test_finished_games_are_not_played_again(compared, models):
    recipe, folder = compared
    before = {path: path.stat().st_mtime_ns for path in folder.root.parent.rglob("model.safetensors")}
    assert before
    play_bases(recipe, models, [0])
    assert {path: path.stat().st_mtime_ns for path in folder.root.parent.rglob("model.safetensors")} == before


def test_mistakes_are_reported_before_a_game(make_recipe, models, tmp_path):
    recipe = load_recipe(make_recipe(tmp_path, **SMALL))
    with pytest.raises(ValueError, match=r"`verifier\.model` is `/no/such/model`"):
        play_bases(recipe, [models[0], "/no/such/model"], [0])
    with pytest.raises(ValueError, match="have one name"):
        play_bases(recipe, [models[0], f"/elsewhere/{Path(models[0]).name}"], [0])
    assert list(tmp_path.iterdir()) == []


def test_the_script_prints_the_table(compared, models, repository, tmp_path, monkeypatch, capsys):
    recipe, _ = compared
    file = tmp_path / "recipe.json"
    file.write_text(json.dumps(recipe.to_dict()))
    script = str(repository / "experiments" / "base_verifiers.py")
    monkeypatch.setattr(sys, "argv", [script, str(file), "--models", *models, "--seeds", "0"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(script, run_name="__main__")
    assert ended.value.code == 0
    assert "| judge " in capsys.readouterr().out
