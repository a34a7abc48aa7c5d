"""Parser and exit status of the commands `python -m experiments.NAME`."""

from collections.abc import Callable

from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def recipe_parser(description: str | None) -> ScriptParser:
    """Parser of a command that plays a recipe."""
    parser = ScriptParser(description)
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that override the recipe")
    return parser


def run_experiment(work: Callable[[], str]) -> int:
    """Run a command, print its result, and return its exit status."""
    set_up_logging()
    quiet_libraries()
    return run_command(work)
