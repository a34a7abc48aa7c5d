"""
Play variants of a message game for several seeds, and put their figures side by side.

    python -m experiments.message_variants recipes/messages/linear_f2.yaml --output runs/sizes \\
        --variant "4 x 3" --variant "6 x 4: world.options={num_equations: 6, num_variables: 4}"

A variant is a name and, after a colon, settings that override the recipe, separated by semicolons. OUTPUT.csv has a
row per variant, message and seed.
"""

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from experiments.command import recipe_parser, run_experiment
from pvg_hf.core.files import write_text
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.spreadsheets import to_csv
from pvg_hf.experimental.messages.building import open_world
from pvg_hf.experimental.messages.decisions import load_world
from pvg_hf.experimental.messages.equilibrium import train_seeds
from pvg_hf.experimental.messages.folder import GAME
from pvg_hf.experimental.messages.judge import judge_game
from pvg_hf.experimental.messages.recipe import MessageRecipe, load_message_recipe
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure

logger = logging.getLogger(__name__)

SHOWN = (
    "accuracy",
    "completeness",
    "soundness",
    "soundness_fresh",
    "soundness_attack",
    "accuracy_shuffled",
    "clean_loss",
)


def main() -> int:
    parser = recipe_parser(__doc__)
    parser.add_argument(
        "--variant", action="append", required=True, metavar="NAME[: SETTINGS]", help="may be repeated"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 123, 456])
    parser.add_argument("--output", type=Path, required=True, metavar="PATH", help="PATH.csv is written")
    arguments = parser.parse_intermixed_args()

    def work() -> str:
        variants: dict[str, list[str]] = {}
        for text in arguments.variant:
            name, _, settings = text.partition(":")
            if not name.strip() or name.strip() in variants:
                raise ValueError(f"`--variant {text}`: every variant needs a different name, before the colon.")
            variants[name.strip()] = [setting.strip() for setting in settings.split(";") if setting.strip()]
        table = compare_variants(arguments.recipe, arguments.overrides, variants, arguments.seeds)
        path = arguments.output.with_suffix(".csv")
        write_text(path, to_csv(table))
        return f"{variants_table(table)}\n\nEvery seed is in {path}"

    return run_experiment(work)


def compare_variants(
    recipe: Path, overrides: Sequence[str], variants: Mapping[str, Sequence[str]], seeds: Sequence[int]
) -> pd.DataFrame:
    """
    Play all variants.

    Args:
        recipe: Recipe of all variants.
        overrides: Settings of all variants.
        variants: Further settings of each, by name.
    Returns: a row per variant, message (`prover` or a control) and seed, with `seconds` of training (of all seeds)
        and, for each figure of a [`~pvg_hf.experimental.messages.judge.MessageJudgement`], its value and, as
        `NAME_low` and `NAME_high`, its interval.
    Raises `ValueError` if the recipe of a variant has mistakes; all of them are read before any is played.
    """
    recipes = {name: load_message_recipe(recipe, [*overrides, *own]) for name, own in variants.items()}
    for of_variant in recipes.values():
        load_world(of_variant.world.name, **of_variant.world.options)
    return pd.DataFrame([row for name, of_variant in recipes.items() for row in _rows(name, of_variant, seeds)])


def _rows(name: str, recipe: MessageRecipe, seeds: Sequence[int]) -> Iterator[dict[str, object]]:
    loaded = open_world(recipe)
    for source in (GAME, *recipe.controls):
        started = time.monotonic()
        games = train_seeds(recipe, loaded, source, seeds)
        seconds = time.monotonic() - started
        logger.info("%s, message %s: %d seeds in %.0f s", name, source, len(seeds), seconds)
        for seed, game in zip(seeds, games):
            row = {"variant": name, "message": source, "seed": seed, "seconds": round(seconds, 1)}
            for key, figure in judge_game(game, loaded, replace(recipe, seed=seed)).figures.items():
                row |= {key: figure.value, f"{key}_low": figure.low, f"{key}_high": figure.high}
            yield row


def variants_table(table: pd.DataFrame) -> str:
    """
    Format a Markdown table with a row per variant and message; figures are means over seeds with Student's interval.
    """
    names = [name for name in SHOWN if name in table]
    rows = [["variant", "message", "seeds", *(name.replace("_", " ") for name in names), "training (s)"]]
    for (variant, message), of_variant in table.groupby(["variant", "message"], sort=False):
        means = [show_figure(mean_over_seeds(of_variant[name]), with_n=False) for name in names]
        rows.append([variant, message, str(len(of_variant)), *means, f"{of_variant['seconds'].iloc[0]:.0f}"])
    return markdown_table(rows)


if __name__ == "__main__":
    sys.exit(main())
