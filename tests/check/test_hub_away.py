"""An unreachable Hub: one attempt, and one line before anything is played."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.game

ASK = """
import json, sys
from pvg_hf import load_recipe
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.data.problems import GameProblems

values = json.loads(sys.argv[1])
found = [check_recipe(recipe, GameProblems.load(recipe)) for recipe in map(load_recipe, values)]
try:
    GameProblems.load(load_recipe({"task": {"name": "gsm8k"}}))
except ValueError as err:
    found.append(str(err))
print(json.dumps(found))
"""


def test_models_and_datasets_of_an_unreachable_hub_are_reported(values, tmp_path):
    models = {**values, "verifier": {**values["verifier"], "model": "org/verifier"}}
    solutions = {**values, "bootstrap": {"import_from": "org/solutions"}}
    away = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", ASK, json.dumps([models, solutions])]
    done = subprocess.run(command, env={**os.environ, **away}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    of_model, of_solutions, of_dataset = json.loads(done.stdout)
    for (mistake,), key, name in (
        (of_model, "`verifier.model`", "org/verifier"),
        (of_solutions, "`bootstrap.import_from`", "org/solutions"),
        ([of_dataset], "`task.path`", "openai/gsm8k"),
    ):
        assert [part for part in (key, name, "the Hub cannot be reached") if part not in mistake] == []
    assert "Retry" not in done.stderr
