"""Commands in messages can be pasted."""

import ast
import shlex
from pathlib import Path

import pytest

from pvg_hf.config.load import parse_override
from pvg_hf.core.commands import delete_command, play_command, pvg_command


@pytest.mark.parametrize(
    "place",
    ["runs", "results", "/data/my runs #1", "it's", "a: b", "[x]", "$HOME", "2024", "2026-11-27", "off", "1e5"],
    ids=lambda place: place,
)
def test_a_command_names_the_run_wherever_it_is(place):
    run = Path(place, "mine")
    words = shlex.split(play_command(run, "prover.lora={r: 8}", launcher="accelerate launch"))
    assert words[:6] == ["accelerate", "launch", "-m", "pvg_hf", "play", str(run)]
    assert words[-1] == "prover.lora={r: 8}"
    # `output_dir` is YAML, and by default `runs`.
    settings = [parse_override(word) for word in words[6:-1]]
    assert settings == ([] if place == "runs" else [{"output_dir": place}])
    assert shlex.split(delete_command(run)) == ["rm", "-r", str(run)]
    assert shlex.split(pvg_command("push", run)) == ["pvg", "push", str(run)]


def _texts(path: Path) -> list[str]:
    """Strings of a module that are not docstrings, with f-strings in parts; or a whole template."""
    if path.suffix != ".py":
        return [path.read_text(encoding="utf-8")]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    ]


def test_commands_are_written_in_one_place(repository):
    """Others would forget the quotes around paths, and be missed when the commands get other names."""
    files = [path for part in ("pvg_hf",) for path in (repository / part).rglob("*.*")]
    files = [path for path in files if path.suffix in (".py", ".jinja")]
    assert len(files) > 200
    assert [path for path in files if any("python scripts/" in text for text in _texts(path))] == []
