"""The ranges of setup.cfg agree with the requirements of the packages that it names."""

import os
import re
import subprocess
import sys
import sysconfig
from configparser import ConfigParser
from importlib.metadata import requires, version
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pvg_hf.core.project import PROJECT_URL

SETUP = Path(__file__).parents[1] / "setup.cfg"
INSTRUCTIONS = [
    path
    for folder in ("docs", "recipes", "pvg_hf", "scripts")
    for path in sorted(SETUP.parent.glob(f"{folder}/**/*.*"))
    if path.suffix in (".md", ".yaml", ".py", ".jinja") and "pip install" in path.read_text(encoding="utf-8")
] + [SETUP.with_name("README.md")]
SOURCES = "".join(path.read_text(encoding="utf-8") for path in SETUP.parent.glob("pvg_hf/**/*.py"))


def _requirements(text: str) -> dict[str, Requirement]:
    found = map(Requirement, filter(None, map(str.strip, text.splitlines())))
    return {canonicalize_name(requirement.name): requirement for requirement in found}


@pytest.fixture(scope="module")
def setup() -> ConfigParser:
    parser = ConfigParser()
    parser.read(SETUP)
    return parser


def _lowest(requirement: Requirement) -> str | None:
    """Version after `>=`."""
    return next((bound.version for bound in requirement.specifier if bound.operator == ">="), None)


def test_no_minimum_is_below_what_the_tested_versions_need(setup):
    ours = _requirements(setup["options"]["install_requires"])
    environment = {**default_environment(), "extra": ""}
    too_low = []
    for name in ours:
        for theirs in map(Requirement, requires(name) or ()):
            mine = ours.get(canonicalize_name(theirs.name))
            if mine is None or (theirs.marker and not theirs.marker.evaluate(environment)):
                continue
            if not theirs.specifier.contains(_lowest(mine) or version(mine.name), prereleases=True):
                too_low.append(f"{mine}: {name} needs {theirs.specifier}")
    assert too_low == []


def test_vllm_is_the_range_that_trl_supports(setup):
    (of_trl,) = (
        r
        for r in map(Requirement, requires("trl"))
        if r.name == "vllm" and "'vllm'" in str(r.marker).replace('"', "'")
    )
    ours = _requirements(setup["options.extras_require"]["vllm"])["vllm"]
    assert ours.specifier == of_trl.specifier


def test_the_projects_address_is_the_one_that_cards_link_to(setup):
    citation = yaml.safe_load(SETUP.with_name("CITATION.cff").read_text(encoding="utf-8"))
    assert (setup["metadata"]["url"], citation["repository-code"]) == (PROJECT_URL, PROJECT_URL)


@pytest.mark.parametrize("extra", sorted(set(re.findall(r"install_extra\(['\"](\w+)", SOURCES))))
def test_an_extra_that_a_message_names_exists(extra, setup):
    assert extra in setup["options.extras_require"]


@pytest.mark.parametrize("path", INSTRUCTIONS, ids=lambda path: str(path.relative_to(SETUP.parent)))
def test_the_package_is_installed_from_a_clone_and_with_the_tested_versions(path):
    """No index has it: what an index has of this name, now or one day, is somebody else's."""
    commands = re.findall(r"pip install[^`\n]*", path.read_text(encoding="utf-8"))
    assert [line for line in commands if re.search(r"install +['\"]?pvg[_-]hf", line)] == []
    assert [line for line in commands if "-e '.[" in line and "-c constraints.txt" not in line] == []


def test_versions_are_asked_for_in_one_place():
    """A package on the module path that is not installed has none, so that `importlib.metadata` raises."""
    parts = ("pvg_hf", "scripts", "pvg_hf.app", "benchmarks", "examples")
    files = [path for part in parts for path in (SETUP.parent / part).rglob("*.py")]
    asking = [path for path in files if "importlib.metadata" in path.read_text(encoding="utf-8")]
    assert asking == [SETUP.parent / "pvg_hf" / "core" / "versions.py"]


def test_a_clone_that_is_not_installed_trains_and_keeps_its_weights(tmp_path):
    # All installed packages but this one, without the finder of an editable installation: `-S` reads no .pth file.
    packages = tmp_path / "site-packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "pvg_hf" not in path.name:
            (packages / path.name).symlink_to(path)
    clone = tmp_path / "clone"  # without the metadata that an editable installation leaves in the repository
    clone.mkdir()
    for name in ("pvg_hf", "tests"):
        (clone / name).symlink_to(SETUP.parent / name)
    program = """
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    version("pvg_hf")
    sys.exit("pvg_hf is installed here")
except PackageNotFoundError:
    pass

import pvg_hf.experimental.messages.run  # noqa: F401
from tests.support.verifier_training import make_tokenizer, text_pairs, verifier_trainer

trainer = verifier_trainer(Path(sys.argv[1]), text_pairs(8), make_tokenizer(eos_token="[EOS]"), max_steps=1)
trainer.train()
trainer.save_model(sys.argv[1])
"""
    run = subprocess.run(
        [sys.executable, "-S", "-c", program, str(tmp_path / "verifier")],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "verifier" / "model.safetensors").exists()
    card = (tmp_path / "verifier" / "README.md").read_text(encoding="utf-8")
    assert f"pvg_hf from a source tree, trl {version('trl')}, " in card
