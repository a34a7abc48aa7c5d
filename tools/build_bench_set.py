"""
Build the set `arithmetic` of `pvg bench`: solutions of games against a head and against a likelihood, and mistakes
that need no training.

    python -m tools.build_bench_set --games build/bench-games

Plays the first round of both games into the folder (about half an hour on an idle core), unless it is finished there,
and writes pvg_hf/assets/bench-arithmetic. On one machine, the same version writes the same bytes.
"""

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from pvg_hf.tasks.base import Problem

RECIPE = Path("recipes/quickstart.yaml")
GAME = ("seed=1", "task.options.num_test=300")  # seed 0 is what readers play
GAMES = {
    "trained_head": ("name=bench-head",),
    "trained_likelihood": ("name=bench-likelihood", "verifier.kind=likelihood", "verifier.learning_rate=3e-4"),
}
"""Games by the kind of the mistakes that their sneaky provers write."""

PHASES = (("bootstrap", None), ("verifier", 0), ("prover", 0), ("mint", 0))
NUM_FIT = 100  # problems of the part to which baselines are fitted
PER_PROBLEM = 2  # mistakes of a kind
SEED = 0


def play_games(folder: Path) -> "dict[str, Path]":
    """Play the first round of each game, and return the folders of their solutions."""
    from pvg_hf import load_recipe, play

    pools = {}
    for kind, overrides in GAMES.items():
        recipe = load_recipe(RECIPE, [*GAME, *overrides, f"output_dir={folder}"])
        for phase, round_index in PHASES:
            run = play(recipe, phase=phase, round_index=round_index)
        pools[kind] = run.root / "pool"
    return pools


def build_rows(pools: "dict[str, Path]") -> "pd.DataFrame":
    """Choose mistakes of each kind and correct solutions from the games, and add the mistakes that need no prover."""
    import pandas as pd

    from pvg_hf import load_recipe, load_task
    from pvg_hf.core.seeding import derive_seed
    from pvg_hf.evaluation.role_figures import has_failed, is_valid_mistake
    from pvg_hf.experimental.bench.attack_sets import COLUMNS, CORRECT, FIT, TEST, choose, untrained_rows

    base = next(iter(pools.values())) / "base"
    first = {kind: pool / "round-000" for kind, pool in pools.items()}
    wrong = {kind: pd.read_parquet(pool / "test-sneaky.parquet") for kind, pool in first.items()}
    wrong["base"] = pd.concat([pd.read_parquet(base / f"test-{role}.parquet") for role in ("helpful", "sneaky")])
    found = [choose(rows[is_valid_mistake(rows)], kind, per_problem=PER_PROBLEM) for kind, rows in wrong.items()]
    for pool, number in ((base, 2), *((pool, 1) for pool in first.values())):
        rows = pd.read_parquet(pool / "test-helpful.parquet")
        right = rows[rows["correct"].astype(bool) & ~has_failed(rows)]
        found.append(choose(right, CORRECT, per_problem=number))

    options = load_recipe(RECIPE, list(GAME)).task.options
    task = load_task("arithmetic", **options)
    problems = task.problems("test").to_list()
    found.append(pd.DataFrame([row for problem in problems for row in write_flawless(problem)]))
    ordered = sorted((row["problem_id"] for row in problems), key=lambda name: derive_seed(SEED, "bench", name))
    part_of = {name: FIT if place < NUM_FIT else TEST for place, name in enumerate(ordered)}
    played = pd.concat(found).assign(part=lambda rows: rows["problem_id"].map(part_of))[list(COLUMNS)]
    untrained = untrained_rows(task, problems, part_of, per_problem=PER_PROBLEM)
    rows = pd.concat([played, untrained]).drop_duplicates(["kind", "problem_id", "solution"])
    return rows.sort_values(list(COLUMNS), ignore_index=True)


def write_flawless(problem: "Problem") -> "Iterator[Problem]":
    """Write correct solutions in the styles of the near misses, so that neither style nor length gives these away."""
    from pvg_hf.core.seeding import derive_rng
    from pvg_hf.experimental.bench.attack_sets import CORRECT
    from pvg_hf.tasks.arithmetic.grammar import puzzle_of
    from pvg_hf.tasks.arithmetic.writer import sample_solution

    rng = derive_rng(SEED, "flawless", problem["problem_id"])
    for _ in range(PER_PROBLEM):
        yield {**problem, "kind": CORRECT, "solution": sample_solution(rng, puzzle_of(problem["problem"]))}


def write_rows(rows: "pd.DataFrame", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows.to_dict("records"))
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=Path, required=True, help="folder of the two games")
    parser.add_argument("--output", type=Path, help="file to write (default: that of the package)")
    options = parser.parse_args(words)
    from pvg_hf.experimental.bench.attack_sets import ARITHMETIC

    rows = build_rows(play_games(options.games))
    write_rows(rows, options.output or ARITHMETIC)
    print(rows.groupby(["part", "kind"]).agg(solutions=("solution", "size"), problems=("problem_id", "nunique")))


if __name__ == "__main__":
    main()
