"""Finds the command that the words of a command line name, and runs it."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

from pvg_hf.core.extensions import suggest

COMMANDS = {
    "Games": {
        "play": ("playing", "play a game, or resume it"),
        "plan": ("playing", "check a recipe, and say what playing it takes"),
        "pilot": ("playing", "let the base prover solve a few problems"),
        "status": ("playing", "how far a game is, and what is left"),
        "recipes": ("starting", "list the recipes of the package, or copy one"),
        "sweep": ("judging", "play a recipe over noise levels and seeds (experimental)"),
    },
    "Results": {
        "report": ("looking", "write a run's report again"),
        "show": ("looking", "open the app on a run"),
        "compare": ("looking", "compare two rounds of one or two runs"),
        "evaluate": ("judging", "evaluate finished rounds further (experimental)"),
        "attack": ("judging", "train attackers against a frozen verifier (experimental)"),
        "answer": ("answering", "answer a problem with a game's players (experimental)"),
    },
    "Verifiers": {
        "score": ("verifying", "score solutions"),
        "choose": ("verifying", "choose among several answers to each problem"),
        "bench": ("bench", "test a verifier on fixed sets of attacks (experimental)"),
        "calibrate": ("verifying", "fit probabilities and a threshold to labelled solutions"),
        "label": ("labelling", "label proofs by a verifier's analyses"),
        "train": ("training", "train a verifier on pairs, or a prover on problems"),
        "export": ("sharing", "write a player as full weights, for a server"),
    },
    "Hub": {
        "push": ("sharing", "publish the rounds of a run"),
        "pull": ("sharing", "download a published run, to read or to continue it"),
        "space": ("sharing", "publish the app on a run as a Space"),
    },
    "Your own": {
        "new": ("starting", "write a task, a reward or a stop rule to start from"),
        "doctor": ("starting", "check this installation and machine"),
    },
}
"""For each command the module that has a function of its name, and a summary."""

_MODULES = {name: module for group in COMMANDS.values() for name, (module, _) in group.items()}

USAGE_ERROR = 2  # exit status, as argparse's
INTERRUPTED = 130  # the shell's exit status of a program that Ctrl-C ended


def main(words: Sequence[str] | None = None) -> int:
    """Run a command line (by default this process's, without its first word), and return the exit status."""
    name, *others = (sys.argv[1:] if words is None else words) or ["--help"]
    if name in ("-h", "--help"):
        sys.stdout.write(describe_commands())
        return 0
    if name in ("-V", "--version"):
        sys.stdout.write(f"pvg_hf {version('pvg_hf')}\n")
        return 0
    if name not in _MODULES:
        sys.stderr.write(f"error: Unknown command `{name}`. {suggest(name, list(_MODULES))}\n")
        return USAGE_ERROR
    try:
        return getattr(import_module(f"pvg_hf.cli.{_MODULES[name]}"), name)(others)
    except KeyboardInterrupt:  # before the command, or the game, listens for it
        sys.stderr.write("Stopped before anything was done.\n")
        return INTERRUPTED


def describe_commands() -> str:
    """The help of `pvg`: all commands with their summaries."""
    lines = [
        "usage: pvg COMMAND ...",
        "",
        "Plays prover-verifier games with language models, and uses their verifiers.",
        "",
    ]
    for heading, commands in COMMANDS.items():
        lines += [f"{heading}:", *(f"  {name:<11}{summary}" for name, (_, summary) in commands.items()), ""]
    lines += [
        "`pvg COMMAND --help` explains a command. First steps: `pvg play demo`, then `pvg show demo`.",
        "Exit status: 0 done, 1 a result that is withheld or a check that failed, 2 a mistake, 130 stopped by Ctrl-C.",
    ]
    return "\n".join(lines) + "\n"
