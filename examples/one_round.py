"""
One round of a prover-verifier game, step by step:

    python examples/one_round.py runs/one-round

It takes about two minutes on two CPU cores and downloads nothing: the word problems and both models come with the package.
`pvg_hf.play` does the same from a recipe, round after round, and adds checkpoints, resuming, noise and a report.
"""

import argparse
from pathlib import Path

from datasets import Dataset
from transformers import set_seed

from pvg_hf import (
    NoisyRewardConfig,
    NoisyRewardTrainer,
    ProverGRPOConfig,
    ProverGRPOTrainer,
    VerifierScorer,
    load_task,
)
from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pairs.build import build_pairs
from pvg_hf.data.pool import write_pool
from pvg_hf.data.schema import BASE_ROUND, make_solution, solution_features
from pvg_hf.data.split import split_problems
from pvg_hf.models.prover_model import load_prover, lora_for_prover
from pvg_hf.models.sources import resolve_model
from pvg_hf.sampling import Sampler, iterate_samples
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
base_prover, base_verifier = resolve_model("arithmetic", "prover"), resolve_model("arithmetic", "verifier")
model, tokenizer = load_prover(base_prover)


def write_solutions(model, part: str, role: Role, per_problem: int) -> list[dict]:
    """Sample solutions to the problems of a part, and let the task say whether each is correct."""
    problems, rows = parts[part].to_list(), []
    texts = [prompts.render(prompts.text(problem, role), tokenizer) for problem in problems]

    def rngs(index: int) -> list:
        return [derive_rng(seed, role, problems[index]["problem_id"], number) for number in range(per_problem)]

    sampler = Sampler(model, tokenizer, max_new_tokens=72)
    for indices, samples in iterate_samples(sampler, texts, rngs):
        for problem, written in zip([problems[i] for i in indices], samples, strict=True):
            for number, sample in enumerate(written):
                grade = task.grade(problem, sample.text)
                solution = make_solution(
                    task=task,
                    problem=problem,
                    part=part,
                    role=role,
                    round_index=BASE_ROUND,
                    prover="one-round",
                    solution=sample.text,
                    grade=grade,
                    label=int(grade.correct),
                    sample_index=number,
                    num_tokens=sample.num_tokens,
                    is_truncated=sample.is_truncated,
                )
                rows.append(solution)
    return rows


# 1. The base prover, which knows of no role yet, writes to the verifier's problems. The task's grades become labels.
write_pool(
    folder / "base.parquet", [write_solutions(model, "verifier", Role.BASE, per_problem=8)], solution_features(task)
)

# 2. Pairs: a correct and an incorrect solution of the same problem.
pairs, _ = build_pairs(
    folder / "base.parquet", seed=seed, round_index=0, weights={BASE_ROUND: 1.0}, solutions_per_problem=8
)
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
trainer = NoisyRewardTrainer(base_verifier, args=args, train_dataset=pairs)
trainer.train()
trainer.save_model()
scorer = VerifierScorer.from_pretrained(folder / "verifier")

# 4. The prover learns to convince it: of correct solutions in the helpful role, of incorrect ones in the sneaky role.
#    A solution is rewarded if it fits its role and scores above the other solutions to the same problem.
solutions = {"base": write_solutions(model, "test", Role.BASE, per_problem=4)}
for role in GAME_ROLES:
    asked = [
        {**row, "role": role.value, "prompt": prompts.render(prompts.text(row, role), tokenizer)}
        for row in parts["prover"].to_list()
    ]
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
        base_prover,
        scorer=scorer,
        grader=task.grade,
        args=args,
        train_dataset=Dataset.from_list(asked),
        peft_config=lora_for_prover(LoraConfig(r=16, alpha=32)),  # an adapter for each role, on the same base
    )
    trainer.train()
    solutions[role.value] = write_solutions(trainer.model, "test", role, per_problem=4)

# 5. On new problems: how often is each role correct, and what does the verifier think of its solutions? In the next round
#    the verifier learns from these provers' solutions too, and the game goes on.
print("role      correct  mean score")
for name, rows in solutions.items():
    scores = scorer([row["problem"] for row in rows], [row["solution"] for row in rows])
    print(f"{name:8} {sum(row['correct'] for row in rows) / len(rows):8.0%} {sum(scores) / len(scores):11.2f}")
