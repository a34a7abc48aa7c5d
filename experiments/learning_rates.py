"""
Train the prover of a recipe for a few steps at each of some learning rates, and tabulate how far each moved it.

    python -m experiments.learning_rates recipes/words-cpu.yaml
    python -m experiments.learning_rates recipes/words-cpu.yaml --rates 1e-4 4e-4 --steps 10

The phases up to the first verifier are played once, in OUTPUT_DIR/NAME, from which the recipe's own game can go on.
Each rate trains in OUTPUT_DIR/NAME-rate-R, from the same prover and against the same verifier. The same command
resumes. The table is also written to OUTPUT_DIR/NAME-rates.md.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from experiments.command import recipe_parser, run_experiment
from experiments.shared_phases import begin_with
from pvg_hf.config import Recipe, load_recipe
from pvg_hf.core.files import write_text
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.roles import Role
from pvg_hf.game.play import play
from pvg_hf.run.layout import PhaseKey, RunFolder, early_phases, unfinished
from pvg_hf.run.read import load_run

RATES = (1e-4, 2e-4, 4e-4)
STEPS = 10
NUM_AVERAGED = 3  # first and last steps of which a figure is the mean

# Heading, metric without role, and whether the mean of the first steps is shown, too.
_COLUMNS = (
    ("KL from the start, nats", "kl", False),
    ("gradient norm", "grad_norm", False),
    ("reward", "reward/{role}", True),
    ("correct", "accuracy/{role}", True),
    ("entropy, nats a token", "entropy", True),
    ("groups of equal rewards", "frac_reward_zero_std", True),
)


def main() -> int:
    parser = recipe_parser(__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help=f"default: {' '.join(map(str, RATES))}")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each role (default: {STEPS})")
    arguments = parser.parse_intermixed_args()

    def work() -> str:
        recipe = load_recipe(arguments.recipe, arguments.overrides)
        table = try_rates(recipe, arguments.rates, arguments.steps)
        write_text(Path(recipe.output_dir) / f"{recipe.name}-rates.md", f"{table}\n")
        return table

    return run_experiment(work)


def try_rates(recipe: Recipe, rates: Sequence[float], num_steps: int) -> str:
    """
    Train at each rate for `num_steps` steps of each role, or read what was trained before.

    Returns: a table with a row for each rate and trained role.
    Raises `ValueError` if the recipe has mistakes, or a folder holds another game.
    """
    for key in [*early_phases(recipe), PhaseKey("verifier", 0)]:
        if key in unfinished(recipe):
            play(recipe, phase=key.name, round_index=key.round_index)
    rows = [["rate", "role", *(heading for heading, *_ in _COLUMNS)]]
    for rate in rates:
        played = rate_recipe(recipe, rate, num_steps)
        begin_with(played, RunFolder.of(recipe))
        folder = play(played, phase="prover", round_index=0)
        rows += _describe(load_run(folder.root).rounds[0].steps, f"{rate:g}")
    return markdown_table(rows)


def rate_recipe(recipe: Recipe, rate: float, num_steps: int) -> Recipe:
    """The recipe of a rate's training, whose rate is constant after the recipe's own warm-up steps."""
    steps = {"max_steps": num_steps, "eval_steps": num_steps, "lr_scheduler_type": "constant_with_warmup"}
    prover = replace(recipe.prover, learning_rate=rate, **steps)
    return replace(recipe, name=f"{recipe.name}-rate-{rate:g}", prover=prover)


def _describe(steps: pd.DataFrame, rate: str) -> Iterator[list[str]]:
    for role in Role:
        if f"reward/{role}" not in steps:
            continue
        of_role = steps[steps[f"reward/{role}"].notna()]
        cells = []
        for _, metric, has_first in _COLUMNS:
            values = of_role[metric.format(role=role)]
            last = f"{values.tail(NUM_AVERAGED).mean():.3g}"
            cells.append(f"{values.head(NUM_AVERAGED).mean():.3g} to {last}" if has_first else last)
        yield [rate, str(role), *cells]


if __name__ == "__main__":
    sys.exit(main())
