"""
Build the trained prover's mistakes of the set `gsm8k` of `pvg bench`.

    python -m tools.build_gsm8k_attacks --games build/bench-games
    python -m tools.build_gsm8k_attacks --games build/bench-games task.path=GSM8K prover.model=SMOL verifier.model=SMOL

Trains SmolLM2-135M-Instruct as a sneaky prover against a verifier with a head on the same model, on training problems
(about three hours of a core, unless it is finished in the folder), lets it solve the set's test problems,
and writes its mistakes to pvg_hf/assets/bench-gsm8k. Arguments like `task.path` change the game's recipe; with
folders as in the second line, nothing is downloaded.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.build_bench_set import write_rows

if TYPE_CHECKING:
    import pandas as pd

RECIPE = Path("recipes/gsm8k-small.yaml")
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
GAME = (
    "name=bench-gsm8k",
    "num_rounds=1",
    "task.few_shot=0",
    "split.max_train=1000",
    "split.max_test=20",
    "bootstrap.solutions_per_problem=1",
    "bootstrap.pilot_problems=0",
    "data.correct_source=dataset",
    "mint.test_solutions_per_problem=1",
    "mint.problems_per_batch=64",
    f"verifier.model={MODEL}",
    "verifier.lora={r: 16, alpha: 32}",
    "verifier.learning_rate=2e-4",
    "verifier.max_steps=40",
    "verifier.pairs_per_step=8",
    "verifier.warmup_steps=4",
    "verifier.trainer={bf16: true}",
    "verifier.max_length=512",
    f"prover.model={MODEL}",
    "prover.roles=sneaky_only",
    "prover.warmup={max_steps: 40, batch_size: 8, learning_rate: 1e-4, max_length: 300}",
    "prover.trainer={bf16: true}",
    "prover.beta=0.02",
    "prover.learning_rate=1e-4",
    "prover.max_steps=100",
    "prover.prompts_per_step=4",
    "prover.num_generations=4",
    "prover.temperature=0.8",
    "prover.max_completion_length=150",
    "stopping.rule=max_steps",
    "watchdogs.max_truncated=0.9",
)
"""A game that a CPU can play. Its base prover solves few problems, so that the correct side of each pair is a
reference."""

PHASES = (("warmup", None), ("bootstrap", None), ("verifier", 0), ("prover", 0))
SEED = 0


def write_mistakes(overrides: Sequence[str]) -> "pd.DataFrame":
    """Play the game, and let its sneaky prover solve the set's test problems, once each; return its mistakes."""
    import pandas as pd

    from pvg_hf import load_recipe, play
    from pvg_hf.core.roles import Role
    from pvg_hf.data.problems import GameProblems
    from pvg_hf.evaluation.role_figures import is_valid_mistake
    from pvg_hf.experimental.bench.attack_sets import TEST, TRAINED_HEAD, make_gsm8k_rows
    from pvg_hf.game.context import PlayerLoader
    from pvg_hf.sampling import sample_solutions

    recipe = load_recipe(RECIPE, [*GAME, *overrides])
    for phase, round_index in PHASES:
        run = play(recipe, phase=phase, round_index=round_index)
    made = make_gsm8k_rows(recipe.task.path)
    wanted = set(made[made["part"] == TEST]["problem_id"])
    prompts = GameProblems.load(recipe).prompts
    problems = [row for row in prompts.task.problems("test").to_list() if row["problem_id"] in wanted]
    sampler = PlayerLoader(recipe, run).role_sampler(Role.SNEAKY, 0)
    rows = pd.DataFrame(sample_solutions(sampler, prompts, problems, Role.SNEAKY, num_samples=1, seed=SEED))
    print(rows["outcome"].value_counts())
    return rows[is_valid_mistake(rows)].assign(kind=TRAINED_HEAD)[["kind", "problem_id", "solution"]]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=Path, required=True, help="folder of the game")
    parser.add_argument("--output", type=Path, help="file to write (default: that of the package)")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="changes of the game's recipe")
    options = parser.parse_args(words)
    from pvg_hf.experimental.bench.attack_sets import GSM8K_TRAINED

    write_rows(write_mistakes([f"output_dir={options.games}", *options.overrides]), options.output or GSM8K_TRAINED)


if __name__ == "__main__":
    main()
