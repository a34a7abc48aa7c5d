"""Helpers for tests of `ProverGRPOTrainer`: prompts, a scorer and a grader that need no model, the trainer itself."""

import pandas as pd
from datasets import Dataset
from peft import LoraConfig

from pvg_hf.tasks.base import Grade
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer

LORA = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
GROUP_SIZE = 4


def score_texts(problems: list[str], solutions: list[str]) -> list[float]:
    """Scores of many values, of both signs, that depend on both texts."""
    return [sum(map(ord, f"{p}{s}")) % 97 / 10 - 4 for p, s in zip(problems, solutions, strict=True)]


def grade_by_length(row: dict, solution: str) -> Grade:
    """Grade a solution: correct if its number of characters is odd, unanswered if it is a multiple of 5."""
    is_answered = len(solution) % 5 != 0
    return Grade(answer=solution if is_answered else None, correct=is_answered and len(solution) % 2 == 1)


def role_rows(roles=("helpful", "sneaky"), num_problems: int = 4) -> Dataset:
    """Each problem in every role."""
    texts = [f"Ana has {index} pens." for index in range(num_problems)]
    return Dataset.from_list(
        [{"prompt": f"{t}\n{role} solution:\n", "problem": t, "role": role} for t in texts for role in roles]
    )


def prover_args(tmp_path, *, config=ProverGRPOConfig, **settings) -> ProverGRPOConfig:
    """Arguments of a silent run on the CPU: three steps of four groups."""
    values = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "learning_rate": 1e-2,
        "reward": "src",  # which `rewards_by_hand` computes
        "max_steps": 3,
        "per_device_train_batch_size": 16,
        "num_generations": GROUP_SIZE,
        "max_completion_length": 8,
    }
    return config(str(tmp_path / "out"), **{**values, **settings})


def prover_trainer(
    prover, tmp_path, *, scorer=score_texts, grader=grade_by_length, rows=None, settings=None, **kwargs
) -> ProverGRPOTrainer:
    """A trainer of a model or its folder; `settings` are those of its arguments, and `kwargs` its own."""
    return ProverGRPOTrainer(
        prover,
        scorer=scorer,
        grader=grader,
        args=prover_args(tmp_path, **(settings or {})),
        train_dataset=role_rows() if rows is None else rows,
        **kwargs,
    )


def loss_lines(trainer) -> list[dict[str, float]]:
    """The log's line of each step."""
    return [line for line in trainer.state.log_history if "loss" in line]


def read_completions(tmp_path, step: int = 1) -> pd.DataFrame:
    """The solutions of a step, of a run with `log_completions`."""
    return pd.read_parquet(tmp_path / "out" / "completions" / f"completions_{step:05d}.parquet")
