"""The ranges of setup.cfg agree with the requirements of the packages that it names."""

from configparser import ConfigParser
from importlib.metadata import PackageNotFoundError, requires, version
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


def test_a_source_tree_that_is_not_installed_has_no_version():
    from pvg_hf.run.environment import installed_version

    assert installed_version("trl") == version("trl")
    assert installed_version("no-such-package") is None
    with pytest.raises(PackageNotFoundError):
        version("no-such-package")
