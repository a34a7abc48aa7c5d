"""Code named by a recipe: it is listed, and that of a pulled run does not run until the user trusts it."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from experiments.arms import describe_arms, play_arms
from pvg_hf.check.plan import describe_plan
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.fields import NamesCode, marked_keys
from pvg_hf.config.recipe import RECIPE_ADAPTER
from pvg_hf.config.trust import ORIGIN, admit_code, list_code, origin_of, trust_recipe, write_origin
from pvg_hf.core.extensions import UntrustedCodeError, load_extension
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.problems import load_recipe_task
from pvg_hf.experimental.answering.answerer import Answerer
from pvg_hf.experimental.sweep import describe_sweep, run_sweep
from pvg_hf.game.play import play
from pvg_hf.game.status import describe_status
from pvg_hf.noise.imperfect_checker import make_base
from pvg_hf.noise.routing import make_routes
from pvg_hf.report import write_report
from pvg_hf.rewards import load_reward
from pvg_hf.trainers.prover.stopping import load_rule
from pvg_hf.trainers.reward.invariance import load_regulariser

MODULE = """
from pathlib import Path
Path(__file__).with_name("imported").touch()

def anything(*args, **kwargs):
    return True
"""


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A module that writes a file when it is imported. Its name is new in each test, as a process caches modules."""
    name = f"foreign_{abs(hash(tmp_path)) % 10**9}"
    place = tmp_path / "modules"
    place.mkdir()
    (place / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(place)
    yield name, place / "imported"
    sys.modules.pop(name, None)


@pytest.fixture
def make_run(tmp_path):
    """A run's folder with a recipe, pulled or the user's own; returns the path of the recipe."""

    def make(values: dict, *, is_pulled: bool = True, name: str = "game") -> Path:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True, exist_ok=True)
        values = {"name": name, "output_dir": str(tmp_path / "runs"), "device": "cpu", **values}
        (folder / "recipe.yaml").write_text(yaml.safe_dump(load_recipe(values).to_dict()))
        if is_pulled:
            write_origin(folder, "org/game", 0)
        return folder / "recipe.yaml"

    return make


def _code_of_everything(module: str, mark: Path) -> dict:
    return {
        "task": {"name": f"{module}:Task"},
        "data": {"mixture": f"{module}:mix"},
        "noise": {
            "checker": {
                "base": "command",
                "command": ["touch", f"{mark}", "{solution}"],
                "critical": f"{module}:is_hard",
            }
        },
        "verifier": {"invariance": {"method": f"balanced+{module}:penalty"}},
        "prover": {"reward": f"{module}:reward"},
        "stopping": {"rule": f"{module}:anything"},
        "rounds": {1: {"stopping": {"rule": f"{module}:later"}}},
    }


def test_every_key_that_takes_a_module_or_a_command_is_covered():
    """Descriptions of fields mention modules and commands; a new key of this kind must be checked for trust too."""
    found = {}

    def walk(node, path, root):
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        for option in node.get("anyOf", []):
            walk(option, path, root)
        for name, child in node.get("properties", {}).items():
            text = child.get("description", "")
            if "module:Name" in text or "program and arguments" in text:
                found[".".join([*path, name])] = text
            walk(child, [*path, name], root)

    schema = RECIPE_ADAPTER.json_schema()
    walk(schema, [], schema)
    assert set(found) <= set(marked_keys(Recipe, NamesCode))
    assert len(found) >= 8


def test_code_is_listed_by_key_and_value(tmp_path):
    code = [str(named) for named in list_code(_code_of_everything("evil", tmp_path / "mark"))]
    assert code == [
        "`task.name`: evil:Task",
        "`data.mixture`: evil:mix",
        f'`noise.checker.command`: ["touch", "{tmp_path / "mark"}", "{{solution}}"]',
        "`noise.checker.critical`: evil:is_hard",
        "`verifier.invariance.method`: evil:penalty",
        "`prover.reward`: evil:reward",
        "`stopping.rule`: evil:anything",
        "`rounds.1.stopping.rule`: evil:later",
    ]


def test_characters_that_a_terminal_hides_are_shown():
    (named,) = list_code({"noise": {"checker": {"command": ["rm", "\u202e\x1b[8m -rf", "{solution}"]}}})
    assert str(named) == '`noise.checker.command`: ["rm", "\\u202e\\u001b[8m -rf", "{solution}"]'
    (named,) = list_code({"stopping": {"rule": "m\u0430th:floor"}})
    assert str(named) == "`stopping.rule`: m\\u0430th:floor"


def test_built_in_names_and_modules_of_the_package_are_not_foreign_code(repository):
    shipped = [
        path
        for path in sorted((repository / "recipes").rglob("*.yaml"))
        if path.parent.name not in ("accelerate", "messages")
    ]
    assert [list_code(load_recipe(path).to_dict()) for path in shipped] == [[]] * len(shipped)


RESOLUTIONS = {
    "task": lambda recipe: load_recipe_task(recipe),
    "mixture": lambda recipe: mixture_weights(recipe.data.mixture, 0),
    "command": lambda recipe: make_base(recipe.noise.checker),
    "critical": lambda recipe: make_routes(recipe.noise.checker),
    "penalty": lambda recipe: load_regulariser(recipe.verifier.invariance.method.removeprefix("balanced+")),
    "reward": lambda recipe: load_reward(recipe.prover.reward),
    "rule": lambda recipe: load_rule(recipe.stopping.rule),
    "rule of a round": lambda recipe: load_rule(recipe.for_round(1).stopping.rule),
    "plan": describe_plan,
    "play": play,
    "admit": admit_code,
}


@pytest.mark.parametrize("name", RESOLUTIONS)
def test_nothing_of_a_pulled_recipe_runs(name, foreign, make_run, tmp_path):
    module, imported = foreign
    recipe = load_recipe(make_run(_code_of_everything(module, tmp_path / "mark")))
    with pytest.raises(UntrustedCodeError) as caught:
        RESOLUTIONS[name](recipe)
    for line in list_code(recipe.to_dict()):
        assert str(line) in str(caught.value)
    assert "--trust" in str(caught.value)
    assert not imported.exists()
    assert not (tmp_path / "mark").exists()


def test_a_function_as_checker_is_not_handed_to_a_worker(foreign, make_run):
    module, imported = foreign
    recipe = load_recipe(make_run({"noise": {"checker": {"base": f"{module}:anything"}}}))
    with pytest.raises(UntrustedCodeError, match=r"noise\.checker\.base"):
        make_base(recipe.noise.checker)
    assert not imported.exists()


@pytest.mark.parametrize("run", [describe_arms, play_arms])
def test_a_comparison_of_a_pulled_recipe_runs_nothing(run, foreign, make_run):
    module, imported = foreign
    recipe = load_recipe(make_run({"arms": {"checkers": {"a": []}}, "stopping": {"rule": f"{module}:anything"}}))
    with pytest.raises(UntrustedCodeError, match=r"stopping\.rule"):
        run(recipe)
    assert not imported.exists()


@pytest.mark.parametrize("run", [describe_sweep, run_sweep])
def test_a_sweep_of_a_pulled_recipe_runs_nothing(run, foreign, make_run):
    module, imported = foreign
    recipe = load_recipe(make_run({"sweep": {}, "stopping": {"rule": f"{module}:anything"}}))
    with pytest.raises(UntrustedCodeError, match=r"stopping\.rule"):
        run(recipe)
    assert not imported.exists()


def test_reading_a_pulled_run_needs_no_trust_and_runs_nothing(foreign, make_run, tmp_path):
    module, imported = foreign
    path = make_run(_code_of_everything(module, tmp_path / "mark"))
    (path.parent / "metrics.jsonl").touch()
    describe_status(load_recipe(path), "run_rounds.py")
    with pytest.raises(ValueError, match="no round"):
        Answerer.from_run(path.parent)
    write_report(path.parent)
    assert not imported.exists()
    assert not (tmp_path / "mark").exists()


def test_trust_is_given_once_and_for_the_values_that_were_seen(foreign, make_run, tmp_path):
    module, imported = foreign
    values = {"stopping": {"rule": f"{module}:anything"}, "prover": {"reward": f"{module}:other"}}
    path = make_run(values)
    recipe = load_recipe(path)
    assert trust_recipe(path, recipe) == [f"`prover.reward`: {module}:other", f"`stopping.rule`: {module}:anything"]
    assert admit_code(load_recipe(path)) == [str(named) for named in list_code(recipe.to_dict())]
    assert trust_recipe(path, load_recipe(path)) == []
    assert load_rule(load_recipe(path).stopping.rule)() is True
    assert imported.exists()
    make_run({**values, "data": {"mixture": f"{module}:new"}}, is_pulled=False)  # the mark stays
    with pytest.raises(UntrustedCodeError) as caught:
        admit_code(load_recipe(path))
    assert [str(named) for named in caught.value.code] == [f"`data.mixture`: {module}:new"]
    recorded = json.loads((path.parent / ORIGIN).read_text())
    assert recorded["run"] == "org/game"
    assert {entry["key"] for entry in recorded["trusted"]} == {"prover.reward", "stopping.rule"}


def test_trust_that_cannot_be_recorded_is_an_error(make_run, monkeypatch):
    path = make_run({"stopping": {"rule": "unrecorded:rule"}})
    recipe = load_recipe(path)
    (path.parent / f".{ORIGIN}.partial").mkdir()  # in the way of the file
    with pytest.raises(ValueError, match="Cannot record"):
        trust_recipe(path, recipe)
    with pytest.raises(UntrustedCodeError):
        admit_code(recipe)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"trusted": 3}', '{"trusted": [3, {"key": "stopping.rule"}]}'])
def test_a_damaged_origin_file_trusts_nothing(text, make_run):
    path = make_run({"stopping": {"rule": "damaged_mark:rule"}})
    (path.parent / ORIGIN).write_text(text)
    with pytest.raises(UntrustedCodeError):
        admit_code(load_recipe(path))


def test_a_recipe_anywhere_within_the_folder_counts_also_by_a_link_or_from_inside(make_run, tmp_path, monkeypatch):
    path = make_run({"stopping": {"rule": "from_inside:rule"}})
    link = tmp_path / "mine.yaml"
    link.symlink_to(path)
    deeper = path.parent / "deeper"
    deeper.mkdir()
    (deeper / "other.yaml").write_bytes(path.read_bytes())
    monkeypatch.chdir(path.parent)
    for place in (link, deeper / "other.yaml", Path("recipe.yaml"), Path(os.curdir, "deeper", "..", "recipe.yaml")):
        assert origin_of(place) == path.parent.resolve()
        with pytest.raises(UntrustedCodeError):
            admit_code(load_recipe(place))


def test_overrides_of_a_pulled_recipe_need_no_trust(foreign, make_run):
    module, imported = foreign
    path = make_run({"stopping": {"rule": f"{module}:theirs"}})
    recipe = load_recipe(path, [f"stopping.rule={module}:anything"])
    assert admit_code(recipe) == [f"`stopping.rule`: {module}:anything"]
    assert load_rule(recipe.stopping.rule)() is True
    assert imported.exists()


def test_environment_variables_of_a_checker_need_trust(make_run):
    checker = {"base": "command", "command": ["true", "{solution}"], "env": ["HF_TOKEN"]}
    path = make_run({"noise": {"checker": checker}})
    with pytest.raises(UntrustedCodeError, match=r'`noise\.checker\.env`: \["HF_TOKEN"\]'):
        admit_code(load_recipe(path, ['noise.checker.command=["cat", "{solution}"]']))


def test_a_recipe_of_the_user_runs_and_its_plan_lists_its_code(foreign, tmp_path, small_recipe):
    module, imported = foreign
    own = {
        **small_recipe,
        "noise": {"checker": {"base": "command", "command": ["test", "-s", "{solution}"]}},
        "stopping": {"rule": f"{module}:anything"},
    }
    recipe = tmp_path / "own.yaml"
    recipe.write_text(yaml.safe_dump(own))
    plan = describe_plan(load_recipe(recipe))
    lines = [line for line in plan.splitlines() if line.startswith("Runs")]
    assert any(f"`stopping.rule`: {module}:anything" in line for line in lines)
    assert any("`noise.checker.command`" in line for line in lines)
    assert len(lines) == 2
    assert imported.exists()


def test_modules_of_this_package_need_no_trust(make_run):
    spec = "pvg_hf.tasks.arithmetic.blind_spot:overlooks_the_last_operation"
    recipe = load_recipe(make_run({"noise": {"checker": {"base": spec}}}))
    assert isinstance(recipe, Recipe)
    assert admit_code(recipe) == []


def test_a_module_that_ends_the_process_is_a_mistake(tmp_path, monkeypatch):
    (tmp_path / "ends_at_import.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="`ends_at_import` ends the process"):
        load_extension("ends_at_import:rule", "stop rule")
