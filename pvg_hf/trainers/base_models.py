"""Builds the base models of the arithmetic world that ship with the package."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase, set_seed

from pvg_hf.models.arithmetic_tokenizer import build_arithmetic_tokenizer
from pvg_hf.roles import Role
from pvg_hf.sampling import Sampler, iterate_samples
from pvg_hf.seeding import derive_rng, derive_seed
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.corpus import CorpusConfig, write_corpus
from pvg_hf.trainers.supervised import FineTuning, fine_tune

# Short stories first: copying from the story is learned on them many times faster than on long ones.
CURRICULUM = ((0.1, 2), (0.2, 3), (0.5, 4), (1.0, 6))  # (share of the steps until, longest story)
BATCHES_PER_BUCKET = 16  # rows of so many batches are sorted by length, so that a batch has little padding
MAX_LENGTH = 192
WAVE_PERIODS = (2, 3, 4, 5, 6, 7, 10, 12, 15, 20, 30, 40, 60, 90, 120, 240)
WAVE_SIZE = 0.06  # three times the spread of the other embeddings


@dataclass(frozen=True)
class BaseModelConfig:
    """
    Args:
        name (`str`):
            Folder under `pvg_hf/assets`.
        hidden_size (`int`), num_layers (`int`), num_heads (`int`), intermediate_size (`int`):
            Of a Llama with tied embeddings.
        num_steps (`int`), batch_size (`int`), learning_rate (`float`):
            Of the training, on a cosine schedule.
        seed (`int`):
            Of the corpus, the weights and the order.
    """

    name: str
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    num_steps: int
    learning_rate: float
    batch_size: int = 64
    seed: int = 0


BASE_MODELS = {
    "prover": BaseModelConfig("arithmetic-prover", 128, 3, 4, 384, num_steps=7500, learning_rate=2e-3),
    "verifier": BaseModelConfig("arithmetic-verifier", 80, 3, 5, 240, num_steps=12000, learning_rate=3e-3),
}


def train_base_model(config: BaseModelConfig, *, show_progress: bool) -> LlamaForCausalLM:
    """Train a base model from its seed, on texts that are made on the way."""
    tokenizer = build_arithmetic_tokenizer()
    set_seed(derive_seed(config.seed, config.name, "weights") % 2**31)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.intermediate_size,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    _start_numbers_as_waves(model, tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        settings = FineTuning(
            max_steps=config.num_steps,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            max_length=MAX_LENGTH,
            seed=config.seed,
            output_dir=folder,
            use_cpu=True,
            show_progress=show_progress,
            keeps_order=True,
        )
        fine_tune(model, tokenizer, Dataset.from_list(list(_ordered_corpus(config))), settings)
    return model


@torch.no_grad()
def _start_numbers_as_waves(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    """
    Give numbers embeddings that tell their value from the first step: waves of it, of periods from 2 to 240. Networks that
    are taught to add come to such features by themselves (Nanda et al. 2023, arXiv 2301.05217), in many more steps.
    """
    embeddings = model.get_input_embeddings().weight
    for token, index in tokenizer.get_vocab().items():
        if token.strip().isdigit():
            angles = 2 * torch.pi * int(token.strip()) / torch.tensor(WAVE_PERIODS)
            embeddings[index, : 2 * len(WAVE_PERIODS)] = WAVE_SIZE * torch.cat([angles.cos(), angles.sin()])


def _ordered_corpus(config: BaseModelConfig) -> Iterator[dict[str, str]]:
    """Rows in the order of training: by the curriculum, and rows of like length in one batch."""
    rng = derive_rng(config.seed, config.name, "corpus")
    num_buckets = -(-config.num_steps // BATCHES_PER_BUCKET)
    for bucket in range(num_buckets):
        longest = next(difficulty for until, difficulty in CURRICULUM if bucket < until * num_buckets)
        corpus = replace(CorpusConfig(), max_difficulty=longest)
        rows = sorted(write_corpus(rng, config.batch_size * BATCHES_PER_BUCKET, corpus), key=_num_words)
        for batch in rng.permutation(BATCHES_PER_BUCKET):
            yield from rows[batch * config.batch_size : (batch + 1) * config.batch_size]


def _num_words(row: dict[str, str]) -> int:
    return row["prompt"].count(" ") + row["completion"].count(" ")


def accuracy_by_role(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, *, num_problems: int = 500
) -> dict[str, float]:
    """Share of correct solutions on fresh problems of 2 to 4 steps, one sample a problem, for each role."""
    task = ArithmeticTask(num_train=1, num_test=num_problems, seed=1)
    problems = task.problems("test").to_list()
    sampler = Sampler(model, tokenizer, max_new_tokens=96, prompts_per_batch=100)
    return {role.value: np.mean(list(_graded(sampler, task, problems, role))).item() for role in Role}


def _graded(sampler: Sampler, task: ArithmeticTask, problems: list[dict], role: Role) -> Iterator[bool]:
    prompts = [PromptBuilder(task).text(problem, role) for problem in problems]
    rngs = [[derive_rng(0, "accuracy", role, problem["problem_id"])] for problem in problems]
    for indices, samples in iterate_samples(sampler, prompts, rngs):
        for index, (sample,) in zip(indices, samples, strict=True):
            yield task.grade(problems[index], sample.text).correct


def write_card(config: BaseModelConfig, num_parameters: int, minutes: float, accuracy: dict[str, float]) -> str:
    """The model card."""
    rows = "\n".join(f"| {role} | {value:.3f} |" for role, value in accuracy.items())
    flaws = ", ".join(f"{role.value} {rate:.0%}" for role, rate in CorpusConfig().flaw_rate)
    return f"""---
license: apache-2.0
library_name: transformers
tags: [pvg_hf, arithmetic]
---
# {config.name}

A Llama of {num_parameters / 1e6:.2f} M parameters for the arithmetic world of pvg_hf, from which a game's players start.
It is a model of that world only: a token per word and number, and no other text means anything to it.

Trained by `scripts/build_base_models.py` from seed {config.seed} on {config.num_steps * config.batch_size:,} texts of the
world's grammar, {minutes:.0f} minutes on one core. Some of these texts are flawed on purpose ({flaws}), so that it makes
mistakes of every kind; no text tells it which.

| role | share of correct solutions |
|---|---|
{rows}

500 fresh problems of 2 to 4 steps, one solution each at temperature 1.
"""
