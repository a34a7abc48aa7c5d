"""All evaluations of the games of a replicated recipe."""

import json
import shutil
from dataclasses import replace

import pytest

from experiments.replication import evaluate_replicates, evaluation_stages, split_settings
from experiments.replication_tables import replicate_recipe, tabulate_replication
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.experimental.judging import EVALUATION_NAMES
from pvg_hf.experimental.judging.round_evaluations import EVALUATIONS
from pvg_hf.run.judgements import load_judgements
from pvg_hf.run.layout import RunFolder

SMALL = [
    "attacks.rewards=[src]",
    "attacks.seeds=[0]",
    "attacks.max_steps=2",
    "attacks.num_problems=2",
    "best_of_n.num_samples=2",
    "best_of_n.num_problems=12",
    "untrained_attacks.num_problems=2",
    "untrained_attacks.budget=2",
    "role_separability.discriminator=none",
    "style.num_folds=2",
]


@pytest.fixture
def recipe(tmp_path, arithmetic_run) -> Recipe:
    """A recipe of which seed 0 is finished; seed 1 has not begun."""
    recipe = replace(load_recipe(arithmetic_run / "recipe.yaml"), output_dir=str(tmp_path))
    shutil.copytree(arithmetic_run, tmp_path / replicate_recipe(recipe, 0).name)
    return recipe


def test_settings_of_evaluations_are_told_from_those_of_the_recipe():
    words = ["attacks.seeds=[0]", "attack.seeds=[0]", "name=attacks.x", "best_of_n=3", "style.num_folds=2", "seed=1"]
    assert split_settings(words) == (
        ["attacks.seeds=[0]", "style.num_folds=2"],
        ["attack.seeds=[0]", "name=attacks.x", "best_of_n=3", "seed=1"],
    )


def test_every_evaluation_has_a_stage_and_what_it_reads_comes_first(recipe):
    stages = evaluation_stages(recipe, "ends")
    names = [name for name, _ in stages]
    assert sorted(names) == sorted(EVALUATIONS)
    assert tuple(EVALUATIONS) == (*EVALUATION_NAMES, "legibility_tax")
    assert names.index("regression") > max(names.index("attacks"), names.index("untrained_attacks"))
    assert dict(stages)["attacks"] == [0, 1]
    assert dict(stages)["legibility_tax"] == [1]
    assert dict(evaluation_stages(recipe, "all"))["attacks"] == ["all"]
    assert dict(evaluation_stages(replace(recipe, num_rounds=1), "ends"))["attacks"] == [0]
    sneaky = replace(recipe, prover=replace(recipe.prover, roles="sneaky_only"))
    assert "legibility_tax" not in dict(evaluation_stages(sneaky, "ends"))


def test_a_setting_of_the_recipe_is_refused(recipe):
    with pytest.raises(ValueError, match=r"`prover\.beta=0` is no setting of an evaluation"):
        evaluate_replicates(recipe, [0], overrides=["prover.beta=0"])


@pytest.mark.nightly
def test_all_evaluations_of_the_finished_games_are_run_once_and_tabulated(recipe, tmp_path):
    evaluate_replicates(recipe, [0, 1], overrides=SMALL)
    folder = RunFolder.of(replicate_recipe(recipe, 0))
    found = load_judgements(folder)
    assert {judgement.name for judgement in found} == EVALUATIONS.keys()
    before = {path: path.stat().st_mtime_ns for path in folder.root.glob("judging/**/*.json")}
    evaluate_replicates(recipe, [0, 1], overrides=SMALL)
    assert {path: path.stat().st_mtime_ns for path in folder.root.glob("judging/**/*.json")} == before
    table = tabulate_replication(recipe, [0, 1])
    for name in ("attacks/src/found", "regression/accepted/all", "legibility_tax/accuracy/game_less_base"):
        assert f"| {name} | " in table
    (raw,) = json.loads((tmp_path / "small-replication.json").read_text())
    assert raw["rounds"]["1"]["judging/attacks/src/found"][3] == 1
