"""The wheel has all of the package and nothing else, and what it promises first runs from an empty folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.docs

PLAN = """
from pvg_hf import load_recipe
from pvg_hf.check.plan import describe_plan

print(describe_plan(load_recipe({"name": "first", "task": {"name": "arithmetic"}, "device": "cpu"})))
"""


@pytest.fixture(scope="module")
def wheel(repository, tmp_path_factory) -> Path:
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source)
    for name in ("pvg_hf", "recipes", "space_app", "docs/reference", "tests", "tools", "experiments"):
        shutil.copytree(repository / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "figures"))
    _run("-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", built, source)
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """An environment with the wheel, beside the other packages that are installed here."""
    environment = tmp_path_factory.mktemp("environment")
    _run("-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    _run("-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A path, so that no `.pth` file of that folder is read: not that of an editable installation either.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return python


def _run(*arguments: str | Path, python: str | Path = sys.executable, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, *arguments], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_all_files_of_the_package_and_no_others_are_in_the_wheel(wheel, repository):
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {"pvg_hf": repository / "pvg_hf"}
    files |= {f"pvg_hf/{name}": repository / name for name in ("recipes", "space_app")}
    assert names == {"pvg_hf/glossary/glossary.md"} | {
        f"{place}/{path.relative_to(root).as_posix()}"
        for place, root in files.items()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_the_first_commands_run_in_an_environment_with_nothing_else(wheel, repository, tmp_path):
    """The wheel states all that it needs. This downloads its dependencies from the package index."""
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    _run("-m", "venv", environment)
    python, pvg = (environment / "bin" / name for name in ("python", "pvg"))
    _run("-m", "pip", "install", "-q", "-c", repository / "constraints.txt", wheel, python=python)
    assert "pvg play demo" in _run("--help", python=pvg, cwd=elsewhere)
    assert "quickstart" in _run("recipes", python=pvg, cwd=elsewhere)
    assert "bootstrap" in _run("plan", "quickstart", "device=cpu", python=pvg, cwd=elsewhere)
    assert "report.html" in _run("play", "demo", "device=cpu", python=pvg, cwd=elsewhere)


def test_a_game_is_planned_with_the_players_that_ship_with_the_package(python, tmp_path):
    assert "bootstrap" in _run("-c", PLAN, python=python, cwd=tmp_path)
    (place,) = _run("-c", "import pvg_hf; print(pvg_hf.__file__)", python=python, cwd=tmp_path).splitlines()
    assert Path(place).is_relative_to(python.parents[1])


def test_the_command_finds_the_recipes_of_the_package(python, tmp_path):
    pvg = python.with_name("pvg")
    assert "quickstart" in _run("recipes", python=pvg, cwd=tmp_path)
    assert "bootstrap" in _run("plan", "quickstart", "device=cpu", python=pvg, cwd=tmp_path)
    assert _run("recipes", "copy", "quickstart", python=pvg, cwd=tmp_path) == "quickstart.yaml\n"
    assert _run("new", "task", python=pvg, cwd=tmp_path) == "my_task.py\n"


def test_a_space_is_made_from_the_wheel(python, tmp_path):
    found = _run("space", "ana/quickstart", "--output", "space", python=python.with_name("pvg"), cwd=tmp_path)
    assert found == "space\n"
    assert {path.name for path in (tmp_path / "space").iterdir()} == {
        *("README.md", "app.py", "pvg_hf", "requirements.txt", "space.json")
    }
    assert (tmp_path / "space" / "pvg_hf" / "glossary" / "glossary.md").is_file()


def test_the_study_says_what_it_does(python, tmp_path):
    module = "pvg_hf.experimental.study"
    assert f"python -m {module}" in _run("-m", module, "--help", python=python, cwd=tmp_path)
