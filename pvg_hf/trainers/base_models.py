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
from pvg_hf.tasks.arithmetic.flaws import FLAW_KINDS, write_flawed_solution
from pvg_hf.tasks.arithmetic.grammar import MIN_DIFFICULTY, parse_story
from pvg_hf.tasks.arithmetic.marking import VERDICTS, write_marked_texts
from pvg_hf.tasks.arithmetic.solutions import read_conclusion
from pvg_hf.tasks.base import Problem
from pvg_hf.trainers.supervised import FineTuning, fine_tune

# Short stories first: copying from the story is learned on them many times faster than on long ones.
CURRICULUM = ((0.1, 2), (0.2, 3), (0.5, 4), (1.0, 6))  # (share of the steps until, longest story)
BATCHES_PER_BUCKET = 16  # rows of so many batches are sorted by length, so that a batch has little padding
MAX_LENGTH = 192
DISTRACTOR_RATE = 0.5
NOT_LEARNED = -100  # torch's cross-entropy leaves such labels out

Row = dict[str, list[int]]


@dataclass(frozen=True)
class BaseModelConfig:
    """
    Args:
        name (`str`):
            Folder under `pvg_hf/assets`.
        texts (`str`):
            `solutions` to be written in each role, for a prover; `marked` ones, for a verifier.
        hidden_size (`int`), num_layers (`int`), num_heads (`int`), intermediate_size (`int`):
            Of a Llama with tied embeddings.
        num_steps (`int`), batch_size (`int`), learning_rate (`float`):
            Of the training, on a cosine schedule.
        seed (`int`):
            Of the corpus, the weights and the order.
    """

    name: str
    texts: str
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    num_steps: int
    learning_rate: float
    batch_size: int = 64
    seed: int = 0


BASE_MODELS = {
    "prover": BaseModelConfig("arithmetic-prover", "solutions", 128, 3, 4, 384, num_steps=4000, learning_rate=2e-3),
    "verifier": BaseModelConfig("arithmetic-verifier", "marked", 80, 4, 5, 240, num_steps=5000, learning_rate=2e-3),
}


def train_base_model(config: BaseModelConfig, *, show_progress: bool) -> LlamaForCausalLM:
    """Train a base model from its seed, on texts of the world's grammar."""
    tokenizer = build_arithmetic_tokenizer()
    set_seed(derive_seed(config.seed, config.name, "weights") % 2**31)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.intermediate_size,
            initializer_range=config.hidden_size**-0.5,  # the usual 0.02 is meant for models ten times as wide
            max_position_embeddings=256,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
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
        rows = Dataset.from_generator(_rows_in_order, cache_dir=folder, gen_kwargs={"config": config})
        fine_tune(model, tokenizer, rows, settings)
    return model


def _rows_in_order(config: BaseModelConfig) -> Iterator[Row]:
    """Rows in the order of training: by the curriculum, and rows of like length in one batch."""
    tokenizer, rng = build_arithmetic_tokenizer(), derive_rng(config.seed, config.name, "corpus")
    write = {"solutions": _solution_rows, "marked": _marked_rows}[config.texts]
    num_buckets = -(-config.num_steps // BATCHES_PER_BUCKET)
    for bucket in range(num_buckets):
        longest = next(difficulty for until, difficulty in CURRICULUM if bucket < until * num_buckets)
        rows = write(tokenizer, rng, config.batch_size * BATCHES_PER_BUCKET, longest)
        rows = sorted(rows, key=lambda row: len(row["input_ids"]))
        for batch in rng.permutation(BATCHES_PER_BUCKET):
            yield from rows[batch * config.batch_size : (batch + 1) * config.batch_size]


def _solution_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, longest: int
) -> Iterator[Row]:
    for row in write_corpus(rng, num_rows, replace(CorpusConfig(), max_difficulty=longest)):
        yield _row(tokenizer, [(row["prompt"], False), (row["completion"] + tokenizer.eos_token, True)])


def _marked_rows(
    tokenizer: PreTrainedTokenizerBase, rng: np.random.Generator, num_rows: int, longest: int
) -> Iterator[Row]:
    difficulties = range(MIN_DIFFICULTY, longest + 1)
    for segments in write_marked_texts(rng, num_rows, difficulties, DISTRACTOR_RATE, tokenizer.eos_token):
        yield _row(tokenizer, segments)


def _row(tokenizer: PreTrainedTokenizerBase, segments: list[tuple[str, bool]]) -> Row:
    """Token ids, and -100 in place of those that are not to be learned."""
    input_ids, labels = [], []
    for text, is_learned in segments:
        ids = tokenizer(text)["input_ids"]
        input_ids += ids
        labels += ids if is_learned else [NOT_LEARNED] * len(ids)
    return {"input_ids": input_ids, "labels": labels}


def measure(config: BaseModelConfig, model: LlamaForCausalLM, num_problems: int = 500) -> dict[str, float]:
    """What a base model can do on fresh problems of 2 to 4 steps: rates in [0, 1] by what they are of."""
    problems = ArithmeticTask(num_train=1, num_test=num_problems, seed=1).problems("test").to_list()
    measures = {"solutions": _correct_by_role, "marked": _verdicts_by_kind}
    return measures[config.texts](model.eval(), build_arithmetic_tokenizer(), problems)


def _correct_by_role(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, problems: list[Problem]
) -> dict[str, float]:
    """Share of correct solutions, one sample a problem at temperature 1, for each role."""
    sampler = Sampler(model, tokenizer, max_new_tokens=96, prompts_per_batch=100)
    return {f"correct, role {role}": np.mean(list(_graded(sampler, problems, role))).item() for role in Role}


def _graded(sampler: Sampler, problems: list[Problem], role: Role) -> Iterator[bool]:
    task = ArithmeticTask()
    prompts = [PromptBuilder(task).text(problem, role) for problem in problems]
    rngs = [[derive_rng(0, "accuracy", role, problem["problem"])] for problem in problems]
    for indices, samples in iterate_samples(sampler, prompts, rngs):
        for index, (sample,) in zip(indices, samples, strict=True):
            yield task.grade(problems[index], sample.text).correct


def _verdicts_by_kind(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, problems: list[Problem]
) -> dict[str, float]:
    """Share of right verdicts on reference solutions, and on solutions with one flaw of each kind."""
    rng = derive_rng(0, "verdicts")
    rates = {"right verdict, reference": _verdicts(model, tokenizer, [(p, p["reference"]) for p in problems], True)}
    for kind in FLAW_KINDS:
        flawed = [(p, write_flawed_solution(rng, parse_story(p["problem"]), kind)) for p in problems]
        wrong = [(p, text) for p, text in flawed if text and read_conclusion(text) != read_conclusion(p["reference"])]
        rates[f"right verdict, {kind.value}"] = _verdicts(model, tokenizer, wrong, False)
    return rates


@torch.no_grad()
def _verdicts(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, cases: list[tuple[Problem, str]], is_correct: bool
) -> float:
    """Share of the cases that the model finds correct, or incorrect."""
    texts = [f"{problem['problem']}\n{solution}{tokenizer.eos_token}" for problem, solution in cases]
    batch = tokenizer(
        texts, padding=True, return_tensors="pt"
    )  # padded on the left, so that the last token is the end
    logits = model(**batch).logits[:, -1]
    right, other = (tokenizer.convert_tokens_to_ids(VERDICTS[verdict]) for verdict in (is_correct, not is_correct))
    return (logits[:, right] > logits[:, other]).float().mean().item()


def write_card(config: BaseModelConfig, num_parameters: int, minutes: float, rates: dict[str, float]) -> str:
    """The model card."""
    rows = "\n".join(f"| {name} | {value:.3f} |" for name, value in rates.items())
    return f"""---
license: apache-2.0
library_name: transformers
tags: [pvg_hf, arithmetic]
---
# {config.name}

A Llama of {num_parameters / 1e6:.2f} M parameters for the arithmetic world of pvg_hf, from which a game's players start.
It is a model of that world only: a token per word and number, and no other text means anything to it.

Trained by `scripts/build_base_models.py` from seed {config.seed} on {config.num_steps * config.batch_size:,} texts of the
world's grammar, {minutes:.0f} minutes on one core. {_describe_texts(config)}

| | share |
|---|---|
{rows}

500 fresh problems of 2 to 4 steps; sampled solutions at temperature 1.
"""


def _describe_texts(config: BaseModelConfig) -> str:
    if config.texts == "marked":
        return (
            "They are solutions with a mark behind each line and a verdict behind the end, so that it has seen what a\n"
            "mistake is before a game begins; it was never shown a prover's own solutions."
        )
    flaws = ", ".join(f"{role.value} {rate:.0%}" for role, rate in CorpusConfig().flaw_rate)
    return (
        f"Some of these texts are flawed on purpose ({flaws}), so that it makes\nmistakes of every kind; no text tells it "
        "which."
    )
