"""`pvg recipes`, `new` and `doctor`, and what a user writes for a recipe or a run."""

import json
from pathlib import Path

import pytest
import yaml

from pvg_hf.check.mistakes import check_recipe
from pvg_hf.cli.main import main
from pvg_hf.cli.sources import find_recipe, packaged_recipes
from pvg_hf.config import load_recipe
from pvg_hf.data.problems import GameProblems
from pvg_hf.run.layout import RunFolder


@pytest.mark.parametrize("source", ["quickstart", "recipes/quickstart.yaml", "quickstart.yaml"])
def test_a_packaged_recipe_is_found_by_its_name_from_any_folder(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_recipe(find_recipe(source)).name == "quickstart"


def test_an_own_file_and_a_runs_folder_are_recipes_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("quickstart.yaml").write_text("name: mine")
    assert find_recipe("quickstart.yaml") == Path("quickstart.yaml")
    Path("run").mkdir()
    Path("run", "recipe.yaml").write_text("name: run")
    assert find_recipe("run") == Path("run", "recipe.yaml")


def test_a_run_is_found_by_its_name_and_where_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("quickstart", "mine"):
        recipe = load_recipe({"name": name, "output_dir": "elsewhere"})
        folder = RunFolder(Path("runs", name))
        folder.root.mkdir(parents=True)
        folder.recipe.write_text(yaml.safe_dump(recipe.to_dict()))
    assert find_recipe("mine") == Path("runs", "mine", "recipe.yaml")
    assert find_recipe("quickstart") == packaged_recipes()["quickstart"]
    assert find_recipe("quickstart", prefers_run=True) == Path("runs", "quickstart", "recipe.yaml")
    assert main(["status", "mine"]) == 0  # not in `elsewhere`, where it was
    assert f"Run folder  {Path('runs', 'mine')}" in capsys.readouterr().out
    with pytest.raises(ValueError, match="Did you mean `mine`"):
        find_recipe("mien")


def test_a_renamed_run_has_a_status_and_says_how_it_is_played_on(tmp_path, capsys):
    folder = RunFolder(tmp_path / "renamed")
    folder.root.mkdir()
    folder.recipe.write_text(yaml.safe_dump(load_recipe({"name": "mine", "output_dir": "elsewhere"}).to_dict()))
    assert main(["status", str(folder.root)]) == 0
    assert f"mv {folder.root} {tmp_path / 'mine'}" in capsys.readouterr().out
    assert main(["play", str(folder.root)]) == 2
    assert f"mv {folder.root} {tmp_path / 'mine'}" in capsys.readouterr().err
    assert not Path("elsewhere").exists()


def test_a_run_has_a_status_from_within_its_folder(tmp_path, monkeypatch, capsys):
    folder = RunFolder(tmp_path / "mine")
    folder.root.mkdir()
    folder.recipe.write_text(yaml.safe_dump(load_recipe({"name": "mine"}).to_dict()))
    monkeypatch.chdir(folder.root)
    assert main(["status", "."]) == 0
    assert f"Run folder  {folder.root}" in capsys.readouterr().out


def test_an_unknown_recipe_is_answered_with_a_suggestion():
    with pytest.raises(ValueError, match="Did you mean `quickstart`"):
        find_recipe("quikstart")
    assert {"gsm8k", "noise/checker"} <= packaged_recipes().keys()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("reward", {"prover": {"reward": "mine_reward:ranked", "reward_options": {"penalty": 0.5}}}),
        ("stop-rule", {"stopping": {"rule": "mine_rule:convincing", "options": {"margin": 0.3}}}),
        ("task", {"task": {"name": "mine_task:MyTask", "options": {"path": "problems"}}}),
    ],
)
def test_a_new_module_has_no_mistake(kind, values, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Names that no other test has imported.
    file = Path({"reward": "mine_reward.py", "stop-rule": "mine_rule.py", "task": "mine_task.py"}[kind])
    assert main(["new", kind, str(file)]) == 0
    assert capsys.readouterr().out.strip() == str(file)
    assert main(["new", kind, str(file)]) == 2  # nothing is overwritten
    if kind == "task":
        Path("problems").mkdir()
        for split, start in (("train", 0), ("test", 500)):
            rows = [
                {"problem": f"How many\u2028is {n} + 1?", "reference": f"{n} + 1 = {n + 1}\n#### {n + 1}"}
                for n in range(start, start + 200)
            ]
            Path("problems", f"{split}.jsonl").write_text(
                "\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8"
            )
    recipe = load_recipe({"name": "mine", "device": "cpu", "output_dir": str(tmp_path), **values})
    mistakes = check_recipe(recipe, GameProblems.load(recipe))
    # The packaged players cannot read the letters of another task.
    assert [mistake for mistake in mistakes if "vocabulary" not in mistake and "tokenizer" not in mistake] == []


def test_the_doctor_says_what_is_here(capsys):
    assert main(["doctor"]) == 0
    assert "torch 2" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["counting", "my-task.py", "1.py"])
def test_a_module_that_could_not_be_imported_is_not_written(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "task", name]) == 2
    assert f"`{name}` cannot be imported as a module: name it like `my_task.py`." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
