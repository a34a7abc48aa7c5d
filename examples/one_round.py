"""
One round of a prover-verifier game, step by step:

    python examples/one_round.py runs/one-round

It takes about two minutes on two CPU cores and downloads nothing: the word problems and both models come with the
package. `pvg_hf.play` does the same from a recipe, round after round, and adds checkpoints, resuming, noise and a
report.
"""

import argparse
from pathlib import Path

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from pvg_hf import (
    NoisyRewardConfig,
    NoisyRewardTrainer,
    ProverGRPOConfig,
    ProverGRPOTrainer,
    VerifierScorer,
    load_task,
)
from pvg_hf.data import build_pairs, solution_features, split_problems, write_pool
from pvg_hf.models import resolve_model
from pvg_hf.sampling import Sampler, sample_solutions
from pvg_hf.tasks import PromptBuilder

parser = argparse.ArgumentParser(description="Play one round of a prover-verifier game on word problems.")
parser.add_argument("folder", type=Path, help="where the pool and the trained models are written")
parser.add_argument("--problems", type=int, default=600, help="problems to train on")
parser.add_argument("--verifier-steps", type=int, default=60)
parser.add_argument("--prover-steps", type=int, default=20, help="steps of each role")
options = parser.parse_args()
folder, seed = options.folder, 0
set_seed(seed)

# The problems. Verifier and prover learn from different ones, so that the verifier judges answers it has never seen.
task = load_task("arithmetic", num_train=options.problems, num_test=40, max_difficulty=4)
parts = split_problems(task.problems("train"), task.problems("test"), seed=seed, verifier_share=0.6)
prompts = PromptBuilder(task)

# The players: two small language models. The prover writes solutions; the verifier will read them and give a score.
prover_path, verifier_path = resolve_model("arithmetic", "prover"), resolve_model("arithmetic", "verifier")
base_prover, tokenizer = AutoModelForCausalLM.from_pretrained(prover_path), AutoTokenizer.from_pretrained(prover_path)


def write_solutions(prover, part: str, role: str, number: int) -> list[dict]:
    """Let a prover write `number` solutions to each problem of a part; the task says whether each is correct."""
    sampler = Sampler(prover, tokenizer, max_new_tokens=72)
    return sample_solutions(sampler, prompts, parts[part].to_list(), role, num_samples=number, seed=seed, part=part)


# 1. The base prover, which knows of no role yet, writes solutions to the verifier's problems. They form the pool.
written = {"base": write_solutions(base_prover, "test", "base", 4)}  # on new problems, for comparison at the end
write_pool(folder / "base.parquet", [write_solutions(base_prover, "verifier", "base", 8)], solution_features(task))

# 2. Pairs: a correct and an incorrect solution of the same problem. In a later round, `weights` would mix the rounds.
#    A verifier reads the problem, a line break and the solution.
pairs, _ = build_pairs(folder / "base.parquet", seed=seed, round_index=0, weights={-1: 1.0}, solutions_per_problem=8)
pairs = pairs.map(lambda row: {"prompt": row["problem"] + "\n"})

# 3. The verifier learns to score the correct solution of each pair above the incorrect one. From here on it is frozen.
common = {"seed": seed, "report_to": "none", "save_strategy": "no", "logging_strategy": "no"}
args = NoisyRewardConfig(
    str(folder / "verifier"),
    per_device_train_batch_size=32,
    learning_rate=1e-3,
    max_steps=options.verifier_steps,
    **common,
)
trainer = NoisyRewardTrainer(verifier_path, args=args, train_dataset=pairs)
trainer.train()
trainer.save_model()
verifier = VerifierScorer.from_pretrained(folder / "verifier")

# 4. The prover learns to convince it: of correct solutions in the helpful role, of incorrect ones in the sneaky role.
#    A solution is rewarded if it fits its role and scores above the other solutions to the same problem.
for role in ("helpful", "sneaky"):
    asked = [{**problem, "role": role, "prompt": prompts.text(problem, role)} for problem in parts["prover"]]
    args = ProverGRPOConfig(
        str(folder / role),
        reward="standardized_src",
        per_device_train_batch_size=64,
        num_generations=8,  # solutions to each problem, so that a step has 8 problems
        max_completion_length=72,
        learning_rate=4e-3,
        max_steps=options.prover_steps,
        **common,
    )
    trainer = ProverGRPOTrainer(
        prover_path,
        scorer=verifier,
        grader=task.grade,
        args=args,
        train_dataset=Dataset.from_list(asked),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.train()
    written[role] = write_solutions(trainer.model, "test", role, 4)

# 5. On new problems: how often is each prover correct, and how does the verifier score what it wrote? In the next
# round, the verifier also learns from the solutions of these provers, and new provers are trained against it.
print("role      correct  mean score")
for role, rows in written.items():
    scores = verifier([row["problem"] for row in rows], [row["solution"] for row in rows])
    print(f"{role:8} {sum(row['correct'] for row in rows) / len(rows):8.0%} {sum(scores) / len(scores):11.2f}")
