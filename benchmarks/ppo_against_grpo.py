"""
Compare PPO with GRPO on the first round of a recipe, at equal numbers of sampled solutions:

    python benchmarks/ppo_against_grpo.py --seeds 0 1 2

The recipe's bootstrap and verifier are played once per seed. Both algorithms then train the prover against this
verifier on the same prompts, and write and evaluate the round's solutions. On each batch of solutions, GRPO takes one
step and PPO takes `prover.ppo.num_iterations`. Early stopping is off in both. Settings of a single algorithm follow
`--ppo` or `--grpo`:

    python benchmarks/ppo_against_grpo.py --seeds 0 --grpo prover.learning_rate=4.0e-3

The prover phase runs in a separate process. Its wall time and processor time are measured (the latter is less affected
by other work on the machine), and its peak of resident memory (on a GPU, of allocated memory). Finished phases are not
played again. Prints a Markdown table with 95 % intervals: over problems for a single run, and over seeds for the
difference of the two algorithms in the last row.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from math import nan
from pathlib import Path

from scipy.stats import t

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.core.markdown import markdown_table

RECIPE = Path(__file__).parents[1] / "recipes" / "arithmetic-ppo.yaml"
SHARED = ["num_rounds=1", "stopping.rule=max_steps", "logging.progress=false"]
COST = "prover-cost.json"


def recipe_of(arguments: argparse.Namespace, seed: int, algorithm: str | None) -> Recipe:
    """Recipe of one run; without an algorithm, of the phases that both have in common."""
    common = [*SHARED, *arguments.overrides, f"seed={seed}", f"output_dir={arguments.output_dir}"]
    ppo = load_recipe(arguments.recipe, common)
    named = f"{ppo.name}-seed-{seed}" + (f"-{algorithm}" if algorithm else "")
    if algorithm == "ppo":
        return load_recipe(arguments.recipe, [*common, f"name={named}", *arguments.ppo])
    steps = ppo.prover.steps_per_batch
    plain = [
        "prover.ppo=null",
        "prover.algorithm=grpo",
        f"prover.max_steps={ppo.prover.num_batches}",
        f"prover.eval_steps={max(1, ppo.prover.evaluation_steps // steps)}",
    ]
    return load_recipe(arguments.recipe, [*common, *plain, f"name={named}", *(arguments.grpo if algorithm else [])])


def play_shared(recipe: Recipe) -> Path:
    from pvg_hf import play

    play(recipe, phase="bootstrap")
    return play(recipe, phase="verifier", round_index=0).root


def play_one(recipe: Recipe, shared: Path) -> Path:
    """Play the prover phase in a separate process, and then the phases that evaluate it."""
    from pvg_hf import play

    root = Path(recipe.output_dir) / recipe.name
    if not root.exists():
        shutil.copytree(shared, root)
        (root / "recipe.yaml").unlink()  # the earlier phases are the same in this recipe
    if not (root / COST).exists():
        order = json.dumps(recipe.to_dict())
        done = subprocess.run(
            [sys.executable, __file__, "--prover-phase"], input=order, text=True, stdout=subprocess.PIPE
        )
        if done.returncode:
            sys.exit(done.returncode)
        (root / COST).write_text(done.stdout.splitlines()[-1] + "\n")
    play(recipe)
    return root


def prover_phase() -> None:
    """Play the prover phase of the recipe on standard input, and print its seconds and bytes."""
    import torch

    from pvg_hf import play
    from pvg_hf.run.console import quiet_libraries, set_up_logging

    set_up_logging()
    quiet_libraries()
    recipe = load_recipe(json.load(sys.stdin))
    start, before = time.perf_counter(), time.process_time()
    play(recipe, phase="prover", round_index=0)
    spent = {"seconds": time.perf_counter() - start, "processor_seconds": time.process_time() - before}
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # KiB on Linux
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else resident
    print(json.dumps({**spent, "bytes": peak}))


def table(folders: dict[tuple[int, str], Path]) -> str:
    from experiments.replication_tables import SEED_FIGURES
    from pvg_hf.evaluation.catalogue import heading_of
    from pvg_hf.experimental.sweep.seeds import show_figure
    from pvg_hf.run.read import load_run

    headings = [
        "seed",
        "algorithm",
        "solutions",
        "steps",
        "prover phase, s",
        "on processors, s",
        "peak, MB",
        *map(heading_of, SEED_FIGURES),
    ]
    rows, values = [headings], {}
    for (seed, algorithm), folder in folders.items():
        run, cost = load_run(folder), json.loads((folder / COST).read_text())
        (data,), prover = run.evaluated, run.recipe.prover
        figures = [data.figure(key) for key in SEED_FIGURES]
        written = prover.num_batches * prover.num_trainings * prover.prompts_per_step * prover.num_generations
        costs = [cost["seconds"], cost["processor_seconds"], cost["bytes"] / 1e6]
        values[seed, algorithm] = [*costs, *(nan if figure.value is None else figure.value for figure in figures)]
        shown = [f"{written:,}", str(prover.planned_steps), *(f"{number:.0f}" for number in costs)]
        rows.append([str(seed), algorithm, *shown, *map(show_figure, figures)])
    seeds = sorted({seed for seed, _ in folders})
    if len(seeds) > 1:
        columns = zip(
            *([a - b for a, b in zip(values[s, "ppo"], values[s, "grpo"], strict=True)] for s in seeds), strict=True
        )
        rows.append(["all", "ppo minus grpo", "", "", *map(mean_over_seeds, columns)])
    return markdown_table(rows)


def mean_over_seeds(differences: tuple[float, ...]) -> str:
    """Mean with Student's interval, which is wide for few seeds."""
    n = len(differences)
    half = t.ppf(0.975, n - 1) * statistics.stdev(differences) / n**0.5
    mean = statistics.fmean(differences)
    return f"{mean:.3f} [{mean - half:.3f}, {mean + half:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings of both algorithms")
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="a recipe with `prover.algorithm: ppo`")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output-dir", default="runs/ppo-against-grpo")
    parser.add_argument("--ppo", nargs="+", default=[], metavar="section.key=value", help="settings of PPO alone")
    parser.add_argument("--grpo", nargs="+", default=[], metavar="section.key=value", help="settings of GRPO alone")
    parser.add_argument("--prover-phase", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_intermixed_args()
    if arguments.prover_phase:
        prover_phase()
        return
    from pvg_hf.run.console import quiet_libraries, set_up_logging

    set_up_logging()
    quiet_libraries()
    folders = {}
    for seed in arguments.seeds:
        shared = play_shared(recipe_of(arguments, seed, None))
        for algorithm in ("grpo", "ppo"):
            folders[seed, algorithm] = play_one(recipe_of(arguments, seed, algorithm), shared)
    print(table(folders))


if __name__ == "__main__":
    main()
