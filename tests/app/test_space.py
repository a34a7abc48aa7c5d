"""The app as a Space: a folder that starts on its own."""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml
from huggingface_hub import constants

from pvg_hf.app.header import show_header
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.space import build_space, describe_public_space
from pvg_hf.cli.main import main
from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.figure import Figure
from pvg_hf.report.statements import alert_statement
from pvg_hf.run.judgements import Judgement, judgement_folder, load_judgements
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import load_run


@pytest.fixture
def space(run_copy, tmp_path):
    (run_copy / "study").mkdir()
    (run_copy / "verifier" / "round-001" / "events.jsonl").touch()
    (run_copy / "study" / "answers.jsonl").write_text("{}\n")
    return build_space(run_copy, tmp_path / "space", ("--repo", "org/answers"), app="pvg_hf.experimental.study")


def test_a_space_has_front_matter_and_requirements(space, repository):
    front = yaml.safe_load((space / "README.md").read_text(encoding="utf-8").split("---")[1])
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (repository / "constraints.txt").read_text(), re.MULTILINE))
    assert (front["sdk"], front["sdk_version"], front["app_file"]) == ("gradio", pins["gradio"], "app.py")
    required = (space / "requirements.txt").read_text().splitlines()
    assert f"duckdb=={pins['duckdb']}" in required
    assert required[0] == "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert f"torch=={pins['torch']}" in required
    assert not [line for line in required if line.startswith("gradio")]


def test_the_owner_logs_in(space):
    front = yaml.safe_load((space / "README.md").read_text(encoding="utf-8").split("---")[1])
    assert front["hf_oauth"] is True


@pytest.mark.parametrize(
    ("run", "is_study", "words"),
    [
        (None, False, {"every solution"}),
        (None, True, {"take part"}),
        ("org/run", True, {"org/run", "HF_TOKEN"}),
    ],
)
def test_a_public_space_says_what_the_public_can_do(arithmetic_run, run, is_study, words):
    said = describe_public_space(run or arithmetic_run, is_study=is_study)
    assert all(word in said for word in words)
    assert ("HF_TOKEN" in said) == (run is not None)


def test_a_space_has_the_results_of_evaluations(run_copy, tmp_path):
    settings = {"judge": str(tmp_path), "token_budget": 8}
    result = Judgement("legibility", 0, "Title", {}, {"judge_auc/game": Figure(0.5, 0.4, 0.6, 9)}, settings, 1.0)
    result.write(judgement_folder(RunFolder(run_copy), "legibility", 0))
    space = build_space(run_copy, tmp_path / "space")
    (found,) = load_judgements(RunFolder(space / "runs" / run_copy.resolve().name))
    assert found.figures == result.figures
    assert found.settings == {"judge": NOT_PUBLISHED, "token_budget": 8}


def test_nothing_is_published_that_the_app_does_not_read(space):
    files = [path for path in space.rglob("*") if path.is_file()]
    assert {path.name for path in space.iterdir()} == {
        "README.md",
        *("app.py", "requirements.txt", "space.json"),
        "pvg_hf",
        "runs",
    }
    assert (space / "pvg_hf" / "glossary" / "glossary.md").exists()
    run = space / "runs" / "small"
    assert {path.name for path in run.iterdir()} == {
        "recipe.yaml",
        *("run.json", "metrics.jsonl", "origin.json", "events.jsonl"),
        *("pool", "evaluation", "verifier"),
    }
    assert {path.suffix for path in run.rglob("*") if path.is_file()} <= {
        ".json",
        ".jsonl",
        ".yaml",
        ".parquet",
        ".safetensors",
        ".jinja",
    }
    assert not [path for path in files if "__pycache__" in path.parts]
    assert [path for path in files if path.name == "events.jsonl"] == [run / "events.jsonl"]
    assert (run / "verifier" / "round-001" / "model.safetensors").exists()


def test_a_space_has_the_alerts_of_the_run(run_copy, tmp_path):
    folder = RunFolder(run_copy)
    folder.events.write_text("")
    folder.log_event("started", machine="mine", path=str(tmp_path))
    folder.log_event("phase_finished", phase="mint", round=0, seconds=1.0, time=5.0)
    folder.log_event("alert", phase="prover", round=0, kind="sneaky_collapse", message="It collapsed.", time=2.0)
    folder.log_event("alert", phase="evaluate", round=0, kind="hub", message=f"{tmp_path} was not sent.")
    copied = RunFolder(build_space(run_copy, tmp_path / "space") / "runs" / run_copy.name)
    assert [(event["event"], event["time"]) for event in copied.read_events()[0]] == [
        ("alert", 2.0),
        ("phase_finished", 5.0),
    ]
    header = show_header(OpenRun(copied.root))
    assert "It collapsed." in header
    assert "Alerts: none" not in header


def test_alerts_that_did_not_come_with_a_run_are_not_said_to_be_none(run_copy):
    RunFolder(run_copy).events.unlink()
    assert alert_statement(load_run(run_copy)).text.startswith("not published with the run")
    RunFolder(run_copy).log_event("phase_finished", phase="evaluate", round=0, seconds=1.0)
    assert alert_statement(load_run(run_copy)).text.startswith("none.")


def read_readme(space):
    _, front, text = (space / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_readme_of_a_space_names_the_run_and_its_pages(run_copy, tmp_path):
    front, text = read_readme(build_space(run_copy, tmp_path / "space"))
    assert front["title"] == "small: a prover-verifier game"
    assert not {"models", "datasets", "hf_oauth"} & front.keys()
    recipe = RunFolder(run_copy).read_recipe()
    for part in ("The run `small`", f"task {recipe.task.name}", f"{recipe.num_rounds} rounds", f"seed {recipe.seed}"):
        assert part in text
    pages = set(re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE))
    assert pages == {"Solutions", "Rounds", "Compare", "Verifiers", "Evaluations", "Score your own"}
    assert "study" not in text
    assert "section" not in text


def test_the_readme_of_a_study_is_about_the_study(space):
    front, text = read_readme(space)
    assert front["title"] == "small: a study of its solutions"
    assert "45 seconds" in text
    assert "Score your own" not in text


@pytest.mark.parametrize("is_local", [True, False])
def test_the_readme_of_a_space_names_the_repositories_of_a_published_run(is_local, run_copy, tmp_path):
    RunFolder(run_copy).log_event("published", run="ana/tries", round=0)
    front, text = read_readme(build_space(run_copy if is_local else "ana/tries", tmp_path / "space"))
    assert front["models"] == ["ana/tries-prover", "ana/tries-verifier"]
    assert front["datasets"] == ["ana/tries-solutions"]
    assert f"]({constants.ENDPOINT}/datasets/ana/tries-solutions)" in text
    assert f"The run `{'small' if is_local else 'tries'}`" in text


def test_the_folder_starts_by_itself(space):
    """The folder's own package and app are imported; the app's start is replaced by one that prints its arguments."""
    code = """
import importlib.util, runpy, sys, types
print(importlib.util.find_spec("pvg_hf").origin)
sys.modules["pvg_hf.experimental.study.__main__"] = types.ModuleType("pvg_hf.experimental.study.__main__")
sys.modules["pvg_hf.experimental.study.__main__"].main = print
runpy.run_path("app.py")
"""
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=space, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        str(space / "pvg_hf" / "__init__.py"),
        "['runs/small', '--repo', 'org/answers']",
    ]


def test_the_command_writes_the_folder(run_copy, tmp_path):
    assert main(["space", str(run_copy), "--output", str(tmp_path / "space")]) == 0
    assert json.loads((tmp_path / "space" / "space.json").read_text())["arguments"] == ["runs/small"]


def test_a_published_run_is_named(tmp_path):
    space = build_space("org/run", tmp_path / "space")
    assert json.loads((space / "space.json").read_text()) == {"app": "pvg_hf.app", "arguments": ["org/run"]}
    assert not (space / "runs").exists()


@pytest.mark.parametrize("run", ["no-such-run", "a/b/c", "org/run name", "runs/nope"])
def test_a_folder_that_is_not_a_run_is_refused(tmp_path, run, monkeypatch):
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"(does not exist|recipe\.yaml).*`org/run`"):
        build_space(run, tmp_path / "space")


def test_a_nonempty_target_folder_is_refused(arithmetic_run, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is not empty"):
        build_space(arithmetic_run, tmp_path)
