"""The generated documentation of recipes agrees with the code."""

import json
import re

import pytest
import yaml

from pvg_hf.config import load_recipe
from pvg_hf.core.project import PROJECT_URL
from tools.write_reference import (
    BEGIN,
    END,
    recipe_schema,
    reference_files,
    reference_markdown,
    write_address,
    write_between_markers,
)


def test_generated_files_are_up_to_date(repository):
    files = reference_files(repository)
    documents = ["recipes.md", "message-game-keys.md", "figures.md", "recipe.schema.json", "requirements.txt"]
    assert [path.name for path in files] == [*documents, "README.md", "setup.cfg", "CITATION.cff"]
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date: run `make reference`"


def leaves(values, prefix=""):
    """Flatten `{"a": {"b": 1}}` to `a.b`."""
    for key, value in values.items():
        yield from leaves(value, f"{prefix}{key}.") if isinstance(value, dict) and value else [f"{prefix}{key}"]


def test_every_key_of_a_recipe_has_a_line():
    player = {"lora": {}, "scratch": {}, "warmup": {}}
    recipe = load_recipe({"prover": {**player, "algorithm": "ppo", "ppo": {}}, "verifier": player})
    keys = {path.rpartition(".")[2] for path in leaves(recipe.to_dict())}
    assert len(keys) > 60
    assert keys - set(re.findall(r"^\| `(\w+)` \|", reference_markdown(), re.MULTILINE)) == set()


def test_lines_have_type_bounds_default_and_meaning():
    lines = reference_markdown().splitlines()
    assert "| `num_generations` | integer >= 2 | `8` | Solutions per prompt: one group. |" in lines
    assert any(line.startswith("| `heldout_share` | number > 0, < 1 | `0.1` | Share of D_V") for line in lines)
    assert any(line.startswith("| `target_modules` | text or list of text | `all-linear` |") for line in lines)
    assert any(
        line.startswith("| `best_of_n` | list of integer >= 2, multiple of 2 | `[2, 4, 8]` |") for line in lines
    )
    assert any(r"P(label 1 \| truth 0)" in line for line in lines), "a bar would end the cell"


def test_a_line_names_the_trainer_argument_only_if_its_name_differs():
    lines = reference_markdown().splitlines()
    named = {line.split("`")[1] for line in lines if "Trainer argument" in line}
    assert {"pairs_per_step", "micro_batch_size", "method"} <= named
    assert named.isdisjoint({"max_steps", "beta", "save_steps", "generation"})  # they also set others of the trainer's


def test_keys_and_sections_that_may_change_in_a_started_run_say_so():
    lines = [line for line in reference_markdown().splitlines() if line.endswith("May change in a started run. |")]
    assert {line.split("`")[1] for line in lines} >= {"num_rounds", "output_dir", "save_steps", "min_pairs"}
    assert "### `hub`\n\nPublishing" in reference_markdown()
    assert "with a tag for each round. May change in a started run.\n" in reference_markdown()


def test_keys_of_both_players_are_listed_once():
    assert reference_markdown().count("| `learning_rate` | number > 0 | `0.0002` |") == 1


def test_table_lines_have_four_cells():
    rows = [line for line in reference_markdown().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_schema_describes_every_field_and_rejects_unknown_ones():
    schema = json.loads(json.dumps(recipe_schema()))
    assert schema["additionalProperties"] is False
    for name, section in schema["$defs"].items():
        for key, node in section.get("properties", {}).items():
            assert "description" in node, f"{name}.{key}"
    assert schema["$defs"]["NoiseConfig"]["properties"]["rho0"]["exclusiveMaximum"] == 1


def test_text_outside_the_markers_is_kept():
    written = write_between_markers(f"before\n{BEGIN}\nold\n{END}\nafter\n", "### Top level")
    assert written.startswith(f"before\n{BEGIN}\n\n### Top level")
    assert written.endswith(f"\n{END}\nafter\n")
    assert "\nold\n" not in written
    assert write_between_markers(written, "### Top level") == written


def test_the_address_is_written_at_every_place():
    text = "url = https://old.example\nurls = https://old.example\n"
    assert write_address(text, "^url = ") == f"url = {PROJECT_URL}\nurls = https://old.example\n"
    with pytest.raises(ValueError, match="git clone"):
        write_address(text, "git clone ")


def test_missing_markers_are_an_error():
    with pytest.raises(ValueError, match="<!--"):
        write_between_markers("no markers", "")


def test_examples_of_the_documentation_are_recipes(repository):
    text = (repository / "docs" / "reference" / "recipes.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        load_recipe(yaml.safe_load(example))


def test_recipes_page_names_every_shipped_recipe(repository):
    text = (repository / "docs" / "reference" / "recipes.md").read_text(encoding="utf-8")
    recipes = [path.name for path in (repository / "recipes").glob("*.yaml")]
    assert len(recipes) >= 4
    assert [name for name in recipes if f"`{name}`" not in text] == []
