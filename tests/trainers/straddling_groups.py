"""
Two steps of `ProverGRPOTrainer`, to be launched on several processes: `straddling_groups.py PROVER OUTPUT`. With 6 rows a
process and groups of 4, the second group's rows lie on two processes.
"""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset

from pvg_hf.tasks.base import Grade
from pvg_hf.trainers.prover_grpo import ProverGRPOTrainer
from pvg_hf.trainers.prover_grpo_config import ProverGRPOConfig

GROUP_SIZE, ROWS_PER_PROCESS, NUM_STEPS = 4, 6, 2


def score(problems: list[str], solutions: list[str]) -> list[float]:
    """Scores of many values, of both signs, that depend on both texts."""
    return [sum(map(ord, f"{p}{s}")) % 97 / 10 - 4 for p, s in zip(problems, solutions, strict=True)]


def grade(row: dict, solution: str) -> Grade:
    """A solution of an odd number of characters is correct, of a multiple of 5 unanswered."""
    is_answered = len(solution) % 5 != 0
    return Grade(answer=solution if is_answered else None, correct=is_answered and len(solution) % 2 == 1)


def problems(num_problems: int) -> Dataset:
    """Each problem in both roles."""
    texts = [f"Ana has {index} pens." for index in range(num_problems)]
    return Dataset.from_list(
        [
            {"prompt": f"{text}\n{role} solution:\n", "problem": text, "role": role}
            for text in texts
            for role in ("helpful", "sneaky")
        ]
    )


def main(prover: str, output: Path) -> None:
    torch.set_num_threads(1)
    trainer = ProverGRPOTrainer(
        prover,
        scorer=score,
        grader=grade,
        args=ProverGRPOConfig(
            str(output),
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
            learning_rate=1e-2,
            max_steps=NUM_STEPS,
            per_device_train_batch_size=ROWS_PER_PROCESS,
            num_generations=GROUP_SIZE,
            max_completion_length=8,
            acceptance_threshold=0.0,
            log_completions=True,
            num_completions_to_print=0,
        ),
        train_dataset=problems(6),
    )
    trainer.train()
    weights = torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])
    result = {
        "log": [line for line in trainer.state.log_history if "loss" in line],
        "num_processes": trainer.accelerator.num_processes,
        "weights": weights.double().sum().item(),
    }
    (output / f"process-{trainer.accelerator.process_index}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
