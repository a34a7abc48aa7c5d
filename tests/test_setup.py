"""The ranges of setup.cfg agree with the requirements of the packages that it names."""

import os
import subprocess
import sys
import sysconfig
from configparser import ConfigParser
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SETUP = Path(__file__).parents[1] / "setup.cfg"


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


@pytest.mark.nightly
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
