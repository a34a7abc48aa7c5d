"""
Trains the judges that ship with the package: verifiers with a head, which have seen a base prover's own mistakes.
"""

import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedModel
from transformers.trainer import TRAINING_ARGS_NAME

from pvg_hf.core.roles import Role
from pvg_hf.data import build_pairs, solution_features, write_pool
from pvg_hf.evaluation.accepted_by_kind import FORMS, form_of
from pvg_hf.evaluation.verifier_quality import roc_auc
from pvg_hf.models.prover_model import load_prover
from pvg_hf.sampling import Sampler, sample_solutions
from pvg_hf.scoring import VerifierScorer
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
from tools.pretraining.base_models import BASE_MODELS, Built, describe_compute, fill_card


@dataclass(frozen=True)
class JudgeConfig:
    """
    Training settings of a judge.

    Args:
        name: Folder under `pvg_hf/assets`.
        start: Key in `BASE_MODELS` of the language model that it starts from.
        num_problems, solutions_per_problem: Problems, and solutions of the base prover to each.
        max_difficulty: Largest difficulty of the problems.
        num_steps, pairs_per_step, learning_rate: Training on pairs of a correct and an incorrect solution.
        seed: Seed of the problems, the solutions and the training.
    """

    name: str
    start: str
    num_problems: int = 3000
    solutions_per_problem: int = 4
    max_difficulty: int = 6
    num_steps: int = 500
    pairs_per_step: int = 32
    learning_rate: float = 1e-3
    seed: int = 0


JUDGES = {
    "judge": JudgeConfig("arithmetic-judge", "verifier"),
    "small-judge": JudgeConfig("arithmetic-judge-small", "small-verifier"),
}


def train_judge(config: JudgeConfig, folder: Path, *, num_test: int = 500) -> Built:
    """
    Train a judge on the solutions of the base prover, save it, and measure it on fresh problems.

    `pretraining_flops` of its configuration is that of the model that it starts from and that of its own training.

    Args:
        config: The judge.
        folder: Folder with the base prover and the verifier that it starts from; the judge is saved there, too.
        num_test: Number of fresh problems.
    Returns: [`~tools.pretraining.base_models.Built`]: its figures are how often a correct solution of the base prover
        is ranked above an incorrect one to any problem (the area under the ROC curve), for all solutions and by form.
    """
    started = time.monotonic()
    task = ArithmeticTask(
        num_train=config.num_problems,
        num_test=num_test,
        seed=2 + config.seed,
        max_difficulty=config.max_difficulty,
    )
    prompts = PromptBuilder(task)
    prover, tokenizer = load_prover(folder / BASE_MODELS["prover"].name)
    sampler = Sampler(prover, tokenizer, max_new_tokens=128, prompts_per_batch=100)

    def write(split: str, number: int) -> list[dict]:
        problems = task.problems(split).to_list()
        return sample_solutions(sampler, prompts, problems, Role.BASE, num_samples=number, seed=config.seed)

    start = folder / BASE_MODELS[config.start].name
    with tempfile.TemporaryDirectory() as scratch:
        pool = Path(scratch) / "base.parquet"
        write_pool(pool, [write("train", config.solutions_per_problem)], solution_features(task))
        pairs, _ = build_pairs(
            pool,
            seed=config.seed,
            round_index=0,
            weights={-1: 1.0},
            solutions_per_problem=config.solutions_per_problem,
        )
        model = _train(config, start, pairs, folder / config.name)
    minutes = (time.monotonic() - started) / 60
    judge = VerifierScorer.from_pretrained(folder / config.name)
    return Built(model.num_parameters(), model.config.pretraining_flops, minutes, _measure(judge, write("test", 4)))


def write_judge_card(config: JudgeConfig, built: Built, prover_flops: float | None) -> str:
    """Write the model card of a judge; the arguments are those of [`~tools.pretraining.base_models.write_card`]."""
    start, prover = BASE_MODELS[config.start], BASE_MODELS["prover"]
    training = (
        f"Trained by `tools/build_base_models.py` from `{start.name}` and seed {config.seed}: {config.num_steps} steps"
        f" of {config.pairs_per_step} pairs of\na correct and an incorrect solution, which `{prover.name}` wrote to"
        f" {config.num_problems:,} problems without a role, in {built.minutes:.0f} minutes\non one core. It has seen"
        f" no other mistakes. {describe_compute(built.flops, prover_flops)}"
    )
    return fill_card(
        config.name,
        start.world,
        f"A classifier with one logit and {built.num_parameters / 1e6:.2f} M parameters, from which a game's verifier"
        " may start: it orders the base\nprover's solutions by correctness. `verifier.head: keep` in a recipe keeps"
        " its head.",
        training,
        built.figures,
        "Areas under the ROC curve, on four solutions of the base prover to each of 500 fresh problems of difficulty"
        f" 2 to {config.max_difficulty}.",
    )


def _train(config: JudgeConfig, start: Path, pairs: Dataset, output: Path) -> PreTrainedModel:
    trainer = NoisyRewardTrainer(
        str(start),
        args=NoisyRewardConfig(
            str(output),
            max_steps=config.num_steps,
            per_device_train_batch_size=config.pairs_per_step,
            learning_rate=config.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=config.num_steps // 20,
            seed=config.seed,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            logging_steps=50,
        ),
        train_dataset=pairs.map(lambda row: {"prompt": row["problem"] + "\n"}),
        processing_class=AutoTokenizer.from_pretrained(start, trust_remote_code=False),
    )
    trainer.train()
    rows, num_rows = trainer.train_dataset, config.num_steps * config.pairs_per_step
    num_tokens = sum(len(ids) for side in ("chosen_ids", "rejected_ids") for ids in rows[side]) / len(rows) * num_rows
    trainer.model.config.pretraining_flops += 6 * trainer.model.num_parameters() * num_tokens
    trainer.save_model()
    (output / TRAINING_ARGS_NAME).unlink()  # a pickle, which nobody should have to trust
    return trainer.model


def _measure(judge: VerifierScorer, solutions: list[dict]) -> dict[str, float]:
    rows = pd.DataFrame(solutions)
    rows["score"] = judge(rows["problem"].tolist(), rows["solution"].tolist())
    forms = form_of(rows["implicit_share"])
    parts = {"all": rows, **{form: rows[forms == form] for form in FORMS}}
    areas = {f"correct ranked above incorrect, {name}": roc_auc(part).value for name, part in parts.items()}
    return {name: math.nan if area is None else area for name, area in areas.items()}
