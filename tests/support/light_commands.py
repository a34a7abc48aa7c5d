"""
Runs commands of `pvg`, `scripts/` and `tools/` one after the other, each in a fork of one light process, and says what
each loaded.

A program of its own: `python -m tests.support.light_commands OUTPUT`, with a list of command lines as JSON on standard
input.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

# What most commands load, once for all of them.
import pvg_hf.experimental.messages.recipe
import pvg_hf.game.cli
import pvg_hf.hub.locate  # noqa: F401

HEAVY = ("torch", "trl", "transformers", "datasets", "gradio", "pandas", "matplotlib")


def run_command_line(words: list[str]) -> dict[str, Any]:
    """Run `-m MODULE ARGUMENTS` or `SCRIPT ARGUMENTS` in this process."""
    status: Any = None
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as err:
        status = err.code
    return {"is_right": status in (None, 0), "heavy": [name for name in HEAVY if name in sys.modules]}


def fork(words: list[str], output: Path) -> dict[str, Any]:
    """Run a command line in a fork, and return whether its status is 0, what it loaded, and what it wrote."""
    output.mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(output / name, os.O_WRONLY | os.O_CREAT), number)
        (output / "ran.json").write_text(json.dumps(run_command_line(words)))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    texts = {name: (output / name).read_text() for name in ("stdout", "stderr")}
    return {**json.loads((output / "ran.json").read_text()), **texts}


if __name__ == "__main__":
    answers = [fork(words, Path(sys.argv[1], str(number))) for number, words in enumerate(json.load(sys.stdin))]
    sys.stdout.write(json.dumps(answers))
