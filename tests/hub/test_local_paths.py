"""Values of a recipe that are paths of the publisher's machine."""

import pytest
import yaml

from pvg_hf import load_recipe
from pvg_hf.check.machine import check_hub
from pvg_hf.config.load import load_kept_recipe
from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.hub.local_paths import is_local_path, published_recipe
from pvg_hf.run.resume import check_unchanged

PLAYED = {
    "output_dir": "/home/ana/runs",
    "task": {"name": "gsm8k", "path": "data/gsm8k", "prompts": {"helpful": "/ {{ problem }}"}},
    "bootstrap": {"import_from": "../solutions.jsonl"},
    "prover": {"model": "~/models/mine", "trainer": {"logging_steps": 3}},
    "verifier": {"model": "Qwen/Qwen3-0.6B"},
    "noise": {
        "checker": {"base": "command", "command": ["python", "/home/ana/check.py", "--data=/home/ana/x", "--fast"]}
    },
    "rounds": {1: {"prover": {"model": "/home/ana/other"}}},
}


def published(values: dict) -> dict:
    return yaml.safe_load(published_recipe(load_recipe(values)))


@pytest.mark.parametrize(
    ("text", "key", "is_local"),
    [
        ("/home/ana", "", True),
        ("~/x", "", True),
        ("./x", "", True),
        ("../x", "", True),
        (".", "", True),
        ("C:\\\\data", "", True),
        ("--data=/home/ana", "", True),
        ("a/b/c", "model", True),
        ("mine", "path", True),
        ("Qwen/Qwen3-0.6B", "model", False),
        ("arithmetic", "model", False),
        ("openai/gsm8k", "import_from", False),
        ("my_task:Task", "name", False),
        ("0/1", "", False),
        ("", "", False),
        ("/a\n/b", "", False),
        (".5", "", False),
    ],
)
def test_local_paths_are_known(text, key, is_local):
    assert is_local_path(text, key) == is_local


def test_a_folder_in_the_working_directory_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen" / "Qwen3-0.6B").mkdir(parents=True)
    assert is_local_path("Qwen/Qwen3-0.6B", "model")
    assert is_local_path("Qwen", "model")
    assert not is_local_path("Qwen", "name")


def test_a_published_recipe_says_where_paths_were():
    values = published(PLAYED)
    assert values["output_dir"] == "runs"
    assert values["task"]["prompts"] == PLAYED["task"]["prompts"]
    assert values["noise"]["checker"]["command"] == ["python", NOT_PUBLISHED, NOT_PUBLISHED, "--fast"]
    assert list(values["rounds"].values()) == [{"prover": {"model": NOT_PUBLISHED}}]
    assert load_recipe(values).unpublished_paths() == [
        *("task.path", "bootstrap.import_from", "noise.checker.command", "prover.model", "rounds.1.prover.model")
    ]
    assert values["verifier"]["model"] == "Qwen/Qwen3-0.6B"
    assert b"/home" not in published_recipe(load_recipe(PLAYED))


def test_a_published_recipe_can_be_read_as_that_of_a_run(tmp_path):
    file, recipe = tmp_path / "recipe.yaml", load_recipe(PLAYED)
    file.write_bytes(published_recipe(recipe))
    assert load_kept_recipe(file).for_round(1).prover.model == NOT_PUBLISHED


def test_a_recipe_without_paths_is_published_as_it_is():
    values = load_recipe({"prover": {"beta": 0.3}}).to_dict()
    assert published(values) == values


def test_a_published_run_is_continued_with_own_paths():
    stored = load_recipe(published(PLAYED))
    check_unchanged(stored, load_recipe(PLAYED), num_begun=2)
    with pytest.raises(ValueError, match=r"`prover\.beta`"):
        check_unchanged(stored, load_recipe(PLAYED, ["prover.beta=0.7"]), num_begun=2)
    with pytest.raises(ValueError, match=r"`noise\.checker\.command`"):
        check_unchanged(stored, load_recipe(PLAYED, ["noise.checker.command=[python, x, y, z]"]), num_begun=2)


def test_paths_that_nobody_stated_are_mistakes():
    mistakes = list(check_hub(load_recipe(published(PLAYED))))
    assert len(mistakes) == 4
    assert "`task.path=...`" in mistakes[0]
