import sys

import pytest

from pvg_hf.core.extensions import ExtensionError, load_extension


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's module, `my_game.rules`."""
    package = tmp_path / "my_game"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rules.py").write_text("class StopEarly:\n    pass\n\nmargin = 0.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "my_game"]:
        del sys.modules[name]


@pytest.mark.usefixtures("module")
def test_an_object_is_found_by_module_and_name():
    assert load_extension("my_game.rules:StopEarly", "stop rule").__name__ == "StopEarly"
    assert load_extension("my_game.rules:margin", "stop rule") == 0.5


@pytest.mark.parametrize(
    "spec", ["", "StopEarly", "my_game.rules", "my_game:", ":StopEarly", "a:b:c", "a:b.c", "../a:b"]
)
def test_a_name_in_another_form_is_refused(spec):
    with pytest.raises(ValueError, match=r"reward `.*`: .* `package\.module:Name`"):
        load_extension(spec, "reward")


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("spec", "missing"), [("my_gam.rules:StopEarly", "my_gam"), ("my_game.rule:StopEarly", "my_game.rule")]
)
def test_a_missing_module_is_named(spec, missing):
    with pytest.raises(ValueError, match=f"stop rule `{spec}`: .* module `{missing}`"):
        load_extension(spec, "stop rule")


@pytest.mark.usefixtures("module")
def test_a_missing_name_is_an_error_with_the_closest_one():
    with pytest.raises(ValueError, match=r"`my_game\.rules` has no `StopEarl`\. .* `StopEarly`\?"):
        load_extension("my_game.rules:StopEarl", "stop rule")
    with pytest.raises(ValueError, match=r"no `q`\. .* `StopEarly`, `margin`\."):
        load_extension("my_game.rules:q", "stop rule")


@pytest.mark.parametrize(
    ("source", "mistake", "line"),
    [
        ("import a_library_that_nobody_has\n", "ModuleNotFoundError: No module named 'a_library_that_nobody_has'", 1),
        ("import math\nfrom math import cosinus\n", "ImportError: cannot import name 'cosinus' from 'math'", 2),
        ("x = 1\ndef rule(means, config)\n    return True\n", "SyntaxError: expected ':'", 2),
        ("x = 1\n  y = 2\n", "IndentationError: unexpected indent", 2),
        ("import json\n\nlimit = json.loads('{')\n", "JSONDecodeError: Expecting property name", 3),
    ],
    ids=["missing library", "missing name", "syntax", "indentation", "library"],
)
@pytest.mark.usefixtures("module")
def test_a_module_that_cannot_be_imported_is_named_with_file_and_line(source, mistake, line, tmp_path):
    file = tmp_path / "my_game" / "broken.py"
    file.write_text(source)
    with pytest.raises(ExtensionError, match=r"task `my_game\.broken:Anything`") as caught:
        load_extension("my_game.broken:Anything", "task")
    said = str(caught.value)
    assert mistake in said
    assert f"({file}, line {line})" in said
    assert "\n" not in said


@pytest.mark.usefixtures("module")
def test_a_mistake_in_a_module_that_the_module_imports_is_placed_there(tmp_path):
    (tmp_path / "my_game" / "helper.py").write_text("\nlimits = {}['depth']\n")
    (tmp_path / "my_game" / "broken.py").write_text("from my_game import helper\n")
    with pytest.raises(ExtensionError, match=r"'depth' \(.*helper\.py, line 2\)"):
        load_extension("my_game.broken:Anything", "task")


@pytest.mark.usefixtures("module")
def test_a_mistake_that_the_package_finds_is_placed_in_the_module_that_made_it(tmp_path):
    (tmp_path / "my_game" / "broken.py").write_text(
        "from pvg_hf.noise import pair_flip_rate\n\nrate = pair_flip_rate(2, 0)\n"
    )
    with pytest.raises(ExtensionError, match=r"`rho0` is 2.* \(.*broken\.py, line 3\)"):
        load_extension("my_game.broken:Anything", "task")
