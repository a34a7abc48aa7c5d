"""Complete commands for messages, quoted for a shell, so that a reader can paste them."""

import json
import re
import shlex
from pathlib import Path


def pvg_command(*words: str | Path, launcher: str = "python") -> str:
    """
    Return the command line of `pvg` with these words; a launcher other than Python starts the package as a module.
    """
    start = "pvg" if launcher == "python" else f"{launcher} -m pvg_hf"
    return f"{start} {shlex.join(map(str, words))}"


def play_command(run: Path, *words: str, launcher: str = "python") -> str:
    """
    Return the command that plays or resumes the run in a folder, by the recipe in it, with further arguments `words`.
    """
    # A run that was moved, or pulled to another place, has a recipe with the old one.
    place = str(run.parent)
    # Read as YAML, where `2024`, `2026-11-27` and `off` are no texts.
    setting = place if re.fullmatch(r"[\w./-]*/[\w./-]*", place) else json.dumps(place, ensure_ascii=False)
    moved = [] if place == "runs" else [f"output_dir={setting}"]
    return pvg_command("play", run, *moved, *words, launcher=launcher)


def delete_command(path: Path) -> str:
    """Return the command that deletes a file or a folder."""
    return f"rm -r {shlex.quote(str(path))}"
