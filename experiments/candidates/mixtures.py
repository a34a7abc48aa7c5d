"""
Games of the likelihood on `arithmetic-short` whose verifiers learn from other mixtures. Research code.

    python experiments/candidates/mixtures.py WHAT SEED OUTPUT [SOURCE]

WHAT: `anchored` (half of each verifier's data is by the base prover), `attackers` (two more sneaky provers in each round,
by `src` and `cgc`, whose solutions later verifiers learn from too), or `inner` (twice the rounds of half as many steps, in
which every player goes on from the last round). SOURCE is another of these games with the same seed, whose first phases are
copied, as far as they are the same.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

torch.set_num_threads(1)

import pandas as pd
import pvg_hf.game.play as game
from experiments.shared_phases import begin_with
from pvg_hf.config import load_recipe
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.pool import load_pool
from pvg_hf.game.honest_solutions import HonestSide
from pvg_hf.game.labels import LabelSource
from pvg_hf.game.minting import WriteJob, forget_batches, write_solutions
from pvg_hf.game.phases import mint, prover
from pvg_hf.game.training import remove_training_files
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.run.layout import RunFolder, pool_file

RECIPE = "recipes/arithmetic-short.yaml"
PLAIN = ["verifier.kind=likelihood", "verifier.learning_rate=3e-4"]
EXTRA = {"src": 1, "cgc": 2}


def anchored(round_index):
    earlier = {k: 0.5 / round_index for k in range(round_index)}
    return {-1: 0.5, **earlier} if earlier else {-1: 1.0}


def overrides(what):
    if what == "anchored":
        return ["data.mixture=experiments.candidates.mixtures:anchored"]
    if what == "inner":
        return ["verifier.init=warm", "prover.init=previous", "verifier.max_steps=75", "verifier.warmup_steps=10",
                "prover.max_steps=50", "prover.helpful_max_steps=16", "prover.eval_steps=8"]
    return []


plain_prover, plain_mint = prover.run_prover, mint.run_mint


def is_last(context):
    return context.round_index == context.recipe.num_rounds - 1


def prover_with_more(context, output):
    summary = plain_prover(context, output)
    if is_last(context):
        return summary  # no later verifier learns from the others
    known, seed = len(context.metrics), type(context).seed
    honest = HonestSide.of_metrics(context.metrics, context.recipe.stopping.labels)
    config = context.recipe.prover.trainings[(Role.SNEAKY,)]
    for reward, number in EXTRA.items():
        target = output / f"sneaky-{reward}"
        type(context).seed = lambda self, *keys: derive_seed(seed(self, *keys), number)
        try:
            training = prover.SubPhase((Role.SNEAKY,), replace(config, reward=reward), target, (0.0, 0.0), honest)
            summary += f"; {reward}: " + prover._train(context, training)
        finally:
            type(context).seed = seed
        remove_training_files(target, context.processes)
        del context.metrics[known:]
    return summary


def mint_with_more(context, output):
    summary = plain_mint(context, output)
    if is_last(context):
        return summary
    players, index = context.players, context.round_index
    scorer = players.scorer(index)
    tables = [pd.read_parquet(output / pool_file(Role.SNEAKY))]
    for reward in EXTRA:
        sampler = players.sampler(context.folder.prover(index) / f"sneaky-{reward}", base_owner=scorer)
        path = output / f"more-{reward}.parquet"
        jobs = [WriteJob(part, Role.SNEAKY, index, context.recipe.mint.solutions_per_problem) for part in VERIFIER_PARTS]
        counts = write_solutions(context, path, jobs, sampler, scorer)
        summary += f"; {reward}: {dict(counts)}"
    forget_batches(output, context.processes)
    path = output / pool_file(Role.SNEAKY)
    files = [path, *(output / f"more-{reward}.parquet" for reward in EXTRA)]
    import pyarrow as pa
    import pyarrow.parquet as pq
    whole = pa.concat_tables([pq.read_table(file) for file in files])
    for file in files:
        file.unlink()
    pq.write_table(whole, path)
    return summary


def main():
    what, seed, output, sources = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    rounds = 10 if what == "inner" else 5
    name = f"name=short-{what}-{seed}"
    recipe = load_recipe(RECIPE, [*PLAIN, f"seed={seed}", name, f"output_dir={output}", f"num_rounds={rounds}", *overrides(what)])
    for source in sources:
        print(begin_with(recipe, RunFolder.find(Path(source))), flush=True)
    if what == "attackers":
        game.PHASES["prover"], game.PHASES["mint"] = prover_with_more, mint_with_more
    game.play(recipe)


if __name__ == "__main__":
    main()
