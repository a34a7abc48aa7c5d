"""What a recipe does beyond its run is listed, and that of a pulled run is not done until the user trusts it."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from experiments.arms import describe_arms, play_arms
from pvg_hf.check.plan import describe_plan
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.fields import Asks, marks_of
from pvg_hf.config.recipe import NOT_PUBLISHED, RECIPE_ADAPTER
from pvg_hf.config.trust import ORIGIN, admit_recipe, list_settings, origin_of, trust_recipe, write_origin
from pvg_hf.core.extensions import Effect, UntrustedCodeError, load_extension
from pvg_hf.data.mixture import mixture_weights
from pvg_hf.data.problems import load_recipe_task
from pvg_hf.experimental.answering.answerer import Answerer
from pvg_hf.experimental.judging.judged_round import JudgedRun
from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.experimental.sweep import describe_sweep, run_sweep
from pvg_hf.game.play import play
from pvg_hf.game.status import describe_status
from pvg_hf.noise.imperfect_checker import make_base
from pvg_hf.noise.routing import make_routes
from pvg_hf.report import write_report
from pvg_hf.rewards import load_reward
from pvg_hf.run.resume import extended_recipe
from pvg_hf.trainers.prover.stopping import load_rule
from pvg_hf.trainers.reward.invariance import load_regulariser
from tests.support.program_rows import sum_row, write_jsonl

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


SOMEWHERE = "/home/ana/private"
HOSTILE = {
    "a sandbox that isolates nothing": ({"task": {"name": "functions", "options": {"sandbox": "none"}}}, "WEAKENS"),
    "the same of a class": (
        {"task": {"name": "pvg_hf.experimental.programs.functions:FunctionsTask", "options": {"sandbox": "none"}}},
        "WEAKENS",
    ),
    "a list in place of a text": ({"task": {"name": "mbpp", "options": {"sandbox": ["none"]}}}, "WEAKENS"),
    "a dataset whose code is run": ({"task": {"name": "mbpp", "options": {"hub_id": "eve/programs"}}}, "READS"),
    "a folder of the task": ({"task": {"name": "gsm8k", "path": SOMEWHERE}}, "READS"),
    "a folder among the options": ({"task": {"name": "apps", "options": {"path": SOMEWHERE}}}, "READS"),
    "solutions": ({"bootstrap": {"import_from": "eve/solutions"}}, "READS"),
    "labels": ({"data": {"annotations": SOMEWHERE}}, "READS"),
    "a model in a folder": ({"prover": {"model": SOMEWHERE}}, "READS"),
    "a model above": ({"verifier": {"model": "../model"}}, "READS"),
    "a critic in a folder": ({"prover": {"algorithm": "ppo", "ppo": {"critic": SOMEWHERE}}}, "READS"),
    "a verifier to attack": ({"attack": {"verifier": SOMEWHERE}}, "READS"),
    "another run": ({"resume_from_hub": "eve/run"}, "READS"),
    "a folder to write to": ({"output_dir": SOMEWHERE}, "WRITES"),
    "publishing": ({"hub": {"push": True}}, "SENDS"),
    "a namespace": ({"hub": {"namespace": "eve"}}, "SENDS"),
    "public repositories": ({"hub": {"private": False}}, "SENDS"),
    "a tracker": ({"logging": {"report_to": ["wandb"]}}, "SENDS"),
    "a server": ({"prover": {"generation": "vllm_server"}}, "SENDS"),
    "an argument of a library": ({"prover": {"trainer": {"optim_args": SOMEWHERE}}}, "PASSES"),
    "in a round": ({"rounds": {1: {"verifier": {"trainer": {"deepspeed": SOMEWHERE}}}}}, "PASSES"),
    "of the whole game in a round": ({"rounds": {0: {"task": {"options": {"hub_id": "eve/x"}}}}}, "READS"),
}


@pytest.mark.parametrize(("values", "effect"), HOSTILE.values(), ids=HOSTILE)
def test_a_setting_with_an_effect_beyond_the_run_needs_consent_for_its_value(values, effect, make_run):
    values = {"task": {"name": "gsm8k"}, **values}
    path = make_run(values)
    (setting,) = list_settings(load_recipe(path))
    assert setting.effect is Effect[effect]
    with pytest.raises(UntrustedCodeError) as caught:
        admit_recipe(load_recipe(path))
    assert caught.value.settings == (setting,)
    assert f"It {setting.effect.verb} {setting.effect.what}:\n- {setting}" in str(caught.value)
    assert trust_recipe(path, load_recipe(path)) == [str(setting)]
    assert setting in admit_recipe(load_recipe(path))
    recorded = json.loads((path.parent / ORIGIN).read_text())
    recorded["trusted"] = [{"key": setting.key, "value": f"{setting.value} of yesterday"}]
    (path.parent / ORIGIN).write_text(json.dumps(recorded))
    with pytest.raises(UntrustedCodeError):
        admit_recipe(load_recipe(path))


HARMLESS = {
    "the default task": {},
    "a model of the Hub": {"prover": {"model": "eve/model"}, "verifier": {"model": "gpt2"}},
    "numbers of a trainer": {"prover": {"trainer": {"adam_beta2": 0.95, "tf32": False}}},
    "sandboxes that isolate": {"task": {"name": "functions", "options": {"sandbox": "bubblewrap", "num_train": 50}}},
    "figures in the run's folder": {"logging": {"report_to": ["tensorboard"]}},
    "a path that was not published": {"task": {"name": "gsm8k", "path": NOT_PUBLISHED}},
    "templates": {"verifier": {"template": "{{ problem }} {{ solution }}"}},
}


@pytest.mark.parametrize("values", HARMLESS.values(), ids=HARMLESS)
def test_a_setting_without_such_an_effect_needs_no_consent(values, make_run):
    admit_recipe(load_recipe(make_run(values)))


def test_a_round_within_a_round_is_a_mistake():
    with pytest.raises(ValueError, match="`rounds`"):
        load_recipe({"rounds": {0: {"rounds": {1: {"prover": {"beta": 0.1}}}}}})


def test_the_user_s_own_recipe_with_the_same_value_admits_nothing(make_run, tmp_path):
    values = {"task": {"name": "functions", "options": {"sandbox": "none"}}}
    pulled, own = load_recipe(make_run(values)), load_recipe(make_run(values, is_pulled=False, name="own"))
    admit_recipe(own)
    for recipe in (pulled, replace(pulled, name="other"), pulled.for_round(0)):
        with pytest.raises(UntrustedCodeError, match=r"task\.options\.sandbox"):
            load_recipe_task(recipe)
    admit_recipe(own)
    assert load_recipe_task(load_recipe(values)).backend == "none"


@pytest.fixture
def dataset_that_writes(tmp_path, monkeypatch):
    """Folder of an MBPP dataset, and the file that its code writes if it is not isolated."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    mark, rows = tmp_path / "written", [sum_row(number) for number in range(40)]
    for row in rows:
        row["code"] += f"\nopen({str(mark)!r}, 'w').close()\n"
    return write_jsonl(tmp_path / "data" / "test.jsonl", rows), mark


@pytest.mark.game
def test_code_of_a_dataset_does_not_run_before_a_pulled_recipe_is_trusted(dataset_that_writes, make_run):
    data, mark = dataset_that_writes
    path = make_run({"task": {"name": "mbpp", "options": {"path": data, "sandbox": "none"}}})
    recipe = load_recipe(path)
    uses = [describe_plan, play, load_recipe_task, lambda recipe: load_recipe_task(recipe.for_round(1))]
    for use in (*uses, lambda recipe: JudgedRun.open(path.parent).problems):
        with pytest.raises(UntrustedCodeError, match=r"task\.options\.sandbox"):
            use(recipe)
    assert not mark.exists()
    trust_recipe(path, recipe)
    load_recipe_task(load_recipe(path)).problems("train")
    assert mark.exists()


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
    assert set(found) <= {key for key, mark in marks_of(Recipe, Asks) if mark.effect is Effect.RUNS}
    assert len(found) >= 8


def test_code_is_listed_by_key_and_value(tmp_path):
    values = {**_code_of_everything("evil", tmp_path / "mark"), "task": {"name": "evil:Task", "options": {"a": 1}}}
    code = [str(one) for one in list_settings(load_recipe(values))]
    assert code == [
        "`task.name`: evil:Task",
        "`task.options.a`: 1",
        "`data.mixture`: evil:mix",
        f'`noise.checker.command`: ["touch", "{tmp_path / "mark"}", "{{solution}}"]',
        "`noise.checker.critical`: evil:is_hard",
        "`verifier.invariance.method`: evil:penalty",
        "`prover.reward`: evil:reward",
        "`stopping.rule`: evil:anything",
        "`rounds.1.stopping.rule`: evil:later",
    ]


def test_characters_that_a_terminal_hides_are_shown():
    checker = {"base": "command", "command": ["rm", "\u202e\x1b[8m -rf", "{solution}"]}
    (named,) = list_settings(load_recipe({"noise": {"checker": checker}}))
    assert str(named) == '`noise.checker.command`: ["rm", "\\u202e\\u001b[8m -rf", "{solution}"]'
    (named,) = list_settings(load_recipe({"stopping": {"rule": "m\u0430th:floor"}}))
    assert str(named) == "`stopping.rule`: m\\u0430th:floor"
    (named,) = list_settings(load_recipe({"prover": {"trainer": {"a`: 1\n- `b\x1b[2J": "x"}}}))
    assert str(named) == "`prover.trainer.a`: 1\\n- `b\\x1b[2J`: x"


def test_built_in_names_and_modules_of_the_package_are_not_foreign_code(repository):
    shipped = [
        path
        for path in sorted((repository / "recipes").rglob("*.yaml"))
        if path.parent.name not in ("accelerate", "messages")
    ]
    assert [one for path in shipped for one in list_settings(load_recipe(path)) if one.effect is Effect.RUNS] == []


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
    "admit": admit_recipe,
}


@pytest.mark.parametrize("name", RESOLUTIONS)
def test_nothing_of_a_pulled_recipe_runs(name, foreign, make_run, tmp_path):
    module, imported = foreign
    recipe = load_recipe(make_run(_code_of_everything(module, tmp_path / "mark")))
    with pytest.raises(UntrustedCodeError) as caught:
        RESOLUTIONS[name](recipe)
    for setting in list_settings(recipe):
        assert str(setting) in str(caught.value)
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
    assert admit_recipe(load_recipe(path)) == list_settings(recipe)
    assert trust_recipe(path, load_recipe(path)) == []
    assert load_rule(load_recipe(path).stopping.rule)() is True
    assert imported.exists()
    make_run({**values, "data": {"mixture": f"{module}:new"}}, is_pulled=False)  # the mark stays
    with pytest.raises(UntrustedCodeError) as caught:
        admit_recipe(load_recipe(path))
    assert [str(one) for one in caught.value.settings] == [f"`data.mixture`: {module}:new"]
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
        admit_recipe(recipe)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"trusted": 3}', '{"trusted": [3, {"key": "stopping.rule"}]}'])
def test_a_damaged_origin_file_trusts_nothing(text, make_run):
    path = make_run({"stopping": {"rule": "damaged_mark:rule"}})
    (path.parent / ORIGIN).write_text(text)
    with pytest.raises(UntrustedCodeError):
        admit_recipe(load_recipe(path))


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
            admit_recipe(load_recipe(place))


def test_a_run_s_own_origin_file_deeper_down_trusts_nothing(make_run):
    path = make_run({"stopping": {"rule": "deeper:rule"}})
    deeper = path.parent / "deeper"
    deeper.mkdir()
    (deeper / "recipe.yaml").write_bytes(path.read_bytes())
    trusted = [{"key": "stopping.rule", "value": "deeper:rule"}]
    (deeper / ORIGIN).write_text(json.dumps({"run": "org/game", "trusted": trusted}))
    with pytest.raises(UntrustedCodeError):
        admit_recipe(load_recipe(deeper / "recipe.yaml"))


def test_a_renamed_recipe_and_one_behind_a_link_are_still_somebody_else_s(make_run, tmp_path):
    path = make_run({"hub": {"push": True}})
    renamed = path.rename(path.with_name("renamed.yaml"))
    assert origin_of(renamed) == path.parent.resolve()
    elsewhere = tmp_path / "elsewhere.yaml"
    renamed.rename(elsewhere)
    path.symlink_to(elsewhere)  # in the folder, and a link out of it
    with pytest.raises(UntrustedCodeError, match=r"hub\.push"):
        admit_recipe(load_recipe(path))
    moved = path.parent.rename(tmp_path / "moved")
    (moved / "recipe.yaml").unlink()
    elsewhere.rename(moved / "recipe.yaml")
    with pytest.raises(UntrustedCodeError, match=r"hub\.push"):
        admit_recipe(load_recipe(moved / "recipe.yaml"))


def test_anchors_and_tags_in_yaml_hide_nothing(make_run):
    path = make_run({})
    path.write_text("task: {name: functions, options: &a {sandbox: none}}\nrounds: {0: {task: {options: *a}}}\n")
    with pytest.raises(UntrustedCodeError, match=r"task\.options\.sandbox"):
        admit_recipe(load_recipe(path))
    path.write_text("task: {name: !!python/name:os.system }\n")
    with pytest.raises(ValueError, match="python/name"):
        load_recipe(path)


def test_rounds_that_a_pulled_run_adds_to_the_user_s_recipe_need_consent(make_run, tmp_path):
    added = {2: {"logging": {"report_to": ["wandb"]}}}
    make_run({"num_rounds": 3, "rounds": added, "task": {"name": "gsm8k", "path": str(tmp_path)}})
    own = load_recipe({"name": "game", "output_dir": str(tmp_path / "runs"), "task": {"path": str(tmp_path)}})
    admit_recipe(own)
    with pytest.raises(UntrustedCodeError) as caught:
        admit_recipe(extended_recipe(own, ()))
    assert [one.key for one in caught.value.settings] == ["rounds.2.logging.report_to"]


def test_what_this_package_imports_is_not_its_own_code(make_run):
    recipe = load_recipe(make_run({"stopping": {"rule": "pvg_hf.core.files:Path"}}))
    with pytest.raises(ValueError, match="not defined in `pvg_hf`"):
        load_rule(recipe.stopping.rule)


@pytest.mark.experimental
def test_a_message_game_in_a_pulled_run_is_refused(make_run):
    path = make_run({})
    path.write_text("world: {name: 'evil:World'}\n")
    with pytest.raises(ValueError, match="pulled run"):
        load_message_recipe(path)


def test_overrides_of_a_pulled_recipe_need_no_trust(foreign, make_run):
    module, imported = foreign
    path = make_run({"stopping": {"rule": f"{module}:theirs"}})
    recipe = load_recipe(path, [f"stopping.rule={module}:anything"])
    assert f"`stopping.rule`: {module}:anything" in map(str, admit_recipe(recipe))
    assert load_rule(recipe.stopping.rule)() is True
    assert imported.exists()


def test_environment_variables_of_a_checker_need_trust(make_run):
    checker = {"base": "command", "command": ["true", "{solution}"], "env": ["HF_TOKEN"]}
    path = make_run({"noise": {"checker": checker}})
    with pytest.raises(UntrustedCodeError, match=r'`noise\.checker\.env`: \["HF_TOKEN"\]'):
        admit_recipe(load_recipe(path, ['noise.checker.command=["cat", "{solution}"]']))


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
    assert "(code with your rights)" in plan
    lines = [line for line in plan.splitlines() if line.startswith("Runs")]
    assert any(f"`stopping.rule`: {module}:anything" in line for line in lines)
    assert any("`noise.checker.command`" in line for line in lines)
    assert len(lines) == 2
    assert imported.exists()


def test_modules_of_this_package_need_no_trust(make_run):
    spec = "pvg_hf.tasks.arithmetic.blind_spot:overlooks_the_last_operation"
    recipe = load_recipe(make_run({"noise": {"checker": {"base": spec}}}))
    assert isinstance(recipe, Recipe)
    assert admit_recipe(recipe) == []


def test_a_module_that_ends_the_process_is_a_mistake(tmp_path, monkeypatch):
    (tmp_path / "ends_at_import.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="`ends_at_import` ends the process"):
        load_extension("ends_at_import:rule", "stop rule")
