"""A recipe attacks a frozen verifier without its run."""

import json
import shutil

import pandas as pd
import pytest

from pvg_hf import load_recipe
from pvg_hf.experimental.attacks.verifier_attack import attack_verifier

SMALL = {"rewards": ["cgc"], "seeds": [0, 1], "max_steps": 2, "num_problems": 2}


def test_the_folder_of_a_verifier_is_enough(tmp_path, reference, make_recipe):
    verifier = shutil.copytree(reference.verifier(1), tmp_path / "pulled" / "round-001")
    recipe = load_recipe(make_recipe(tmp_path, name="attack", attack={**SMALL, "verifier": str(verifier)}))
    folder = attack_verifier(recipe, num_workers=1)
    assert folder == tmp_path / "attack"
    assert "| `cgc/found` |" in (folder / "summary.md").read_text()
    assert json.loads((folder / "figures.json").read_text())["cgc/found"]["n"] == 2
    attackers = sorted(path.name.rpartition("-")[0] for path in (folder / "attackers").iterdir())
    assert attackers == ["round-001-cgc-grpo-seed-0-of-2", "round-001-cgc-grpo-seed-1-of-2"]
    # The base prover's correct helpful solutions are what the attackers must reach, the same for both.
    assert pd.read_parquet(folder / "outcomes.parquet")["helpful_score"].nunique() == 1
    before = {path: path.stat().st_mtime_ns for path in (folder / "attackers").rglob("*")}
    attack_verifier(recipe, num_workers=1)
    assert {path: path.stat().st_mtime_ns for path in (folder / "attackers").rglob("*")} == before


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        (None, r"attack: \{verifier: FOLDER\}"),
        (SMALL, r"attack: \{verifier: FOLDER\}"),
        ({**SMALL, "verifier": "PROVER"}, "calibration.json"),
        ({**SMALL, "verifier": "nobody/nothing"}, "nobody/nothing"),
    ],
)
def test_a_recipe_without_a_verifier_is_refused(tmp_path, player, make_recipe, attack, message):
    if attack is not None and attack.get("verifier") == "PROVER":
        attack = {**attack, "verifier": str(player)}
    with pytest.raises(ValueError, match=message):
        attack_verifier(load_recipe(make_recipe(tmp_path, attack=attack)), num_workers=1)


def test_a_prover_that_the_recipe_makes_cannot_attack(tmp_path, make_recipe):
    recipe = make_recipe(tmp_path, attack={**SMALL, "verifier": "x"}, prover__warmup={"max_steps": 1})
    with pytest.raises(ValueError, match="models/prover"):
        attack_verifier(load_recipe(recipe), num_workers=1)
