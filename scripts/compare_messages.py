"""
Play variants of a message game for several seeds, and put their figures side by side.

    python scripts/compare_messages.py recipes/messages/linear_f2.yaml --output runs/sizes \\
        --variant "4 x 3" --variant "6 x 4: world.options={num_equations: 6, num_variables: 4}"

A variant is a name and, after a colon, settings that override the recipe, separated by semicolons. OUTPUT.csv has a row per
variant, message and seed.
"""

import sys
from pathlib import Path

from pvg_hf.core.files import write_text
from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("recipe", type=Path, help="a YAML file of a message game")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings of all variants")
    parser.add_argument(
        "--variant", action="append", required=True, metavar="NAME[: SETTINGS]", help="may be repeated"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 123, 456])
    parser.add_argument("--output", type=Path, required=True, metavar="PATH", help="PATH.csv is written")
    arguments = parser.parse_intermixed_args()

    def run() -> str:
        variants: dict[str, list[str]] = {}
        for text in arguments.variant:
            name, _, settings = text.partition(":")
            if not name.strip() or name.strip() in variants:
                raise ValueError(f"`--variant {text}`: every variant needs a different name, before the colon.")
            variants[name.strip()] = [setting.strip() for setting in settings.split(";") if setting.strip()]
            load_message_recipe(arguments.recipe, [*arguments.overrides, *variants[name.strip()]])  # refuses mistakes
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        from pvg_hf.core.spreadsheets import to_csv
        from pvg_hf.experimental.messages.variants import compare_variants, variants_table

        table = compare_variants(arguments.recipe, arguments.overrides, variants, arguments.seeds)
        path = arguments.output.with_suffix(".csv")
        write_text(path, to_csv(table))
        return f"{variants_table(table)}\n\nEvery seed is in {path}"

    set_up_logging()
    return run_command(run)


if __name__ == "__main__":
    sys.exit(main())
