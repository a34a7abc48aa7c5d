"""Trains the base models that ship with the package."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase, set_seed

from pvg_hf.core.seeding import derive_seed
from pvg_hf.tasks.proofs.language import PROOF_SETTINGS
from pvg_hf.trainers.common.supervised import FineTuning, fine_tune
from tools.pretraining.optimizer import MuonAndAdamW
from tools.pretraining.program_texts import ProgramCorpusConfig
from tools.pretraining.proof_texts import ProofsCorpusConfig
from tools.pretraining.solution_texts import CorpusConfig
from tools.pretraining.texts import Row, rows_in_order
from tools.pretraining.tokenizers import (
    build_arithmetic_tokenizer,
    build_functions_tokenizer,
    build_proofs_tokenizer,
)


@dataclass(frozen=True)
class BaseModelConfig:
    """
    Architecture and training settings of a base model.

    Args:
        name: Folder under `pvg_hf/assets`.
        texts: Kind of training texts: `solutions` after the prompt of a role, for a prover; `shown_solutions`, the
            same with a correct solution in some of the sneaky role's prompts; `texts` as a verifier reads them;
            `evaluations` of proofs and of analyses, for a score verifier; `programs` and `program_texts`, for a prover
            and a verifier of the task `functions`.
        hidden_size, num_layers, num_heads, intermediate_size: Sizes of a Llama with tied embeddings.
        num_steps, batch_size, learning_rate, matrix_learning_rate: Training settings, with the learning rates of the
            embeddings and of the layers' matrices; the schedule is a cosine.
        seed: Seed of the texts, the weights and the order.
        max_length, max_difficulty: Maximum tokens of a text, and largest difficulty of its problem.
        start: Folder of a model of the same sizes and tokenizer whose training it continues; by default it starts from
            random weights.
        continues: Whether the settings are those of a continued training, which would be too short for random weights.
    """

    name: str
    texts: str
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    num_steps: int
    learning_rate: float = 1e-3
    matrix_learning_rate: float = 0.006
    batch_size: int = 32
    seed: int = 0
    max_length: int = 320
    max_difficulty: int = 6
    start: Path | None = None
    continues: bool = False

    @property
    def world(self) -> str:
        """`arithmetic`, `proofs` or `functions`."""
        return {"evaluations": "proofs", "programs": "functions", "program_texts": "functions"}.get(
            self.texts, "arithmetic"
        )

    @property
    def prover(self) -> str | None:
        """Key in `BASE_MODELS` of the prover that a model of this kind judges, if it is a verifier."""
        return {"texts": "prover", "program_texts": "program-prover"}.get(self.texts)

    def build_tokenizer(self) -> PreTrainedTokenizerBase:
        """Build the tokenizer of the texts' world."""
        return TOKENIZERS[self.world]()

    def save(self, model: LlamaForCausalLM, folder: Path) -> None:
        """
        Save a trained model with its tokenizer, and with its prompts if it writes evaluations.

        Models of the task `functions` are saved in half precision, which leaves the model itself in half precision
        too.
        """
        if self.world == "functions":
            model.half()
        model.save_pretrained(folder)
        self.build_tokenizer().save_pretrained(folder)
        if self.texts == "evaluations":
            PROOF_SETTINGS.save(folder)


TOKENIZERS = {
    "arithmetic": build_arithmetic_tokenizer,
    "proofs": build_proofs_tokenizer,
    "functions": build_functions_tokenizer,
}
"""Builders of the tokenizers by world."""

BASE_MODELS = {
    "prover": BaseModelConfig("arithmetic-prover", "solutions", 128, 4, 4, 256, num_steps=16_000),
    "verifier": BaseModelConfig("arithmetic-verifier", "texts", 80, 4, 5, 240, num_steps=4000),
    "small-verifier": BaseModelConfig("arithmetic-verifier-small", "texts", 48, 3, 3, 144, num_steps=2000),
    "score-verifier": BaseModelConfig(
        "proofs-player",
        "evaluations",
        128,
        4,
        4,
        384,
        num_steps=1200,
        batch_size=16,
        max_length=384,
        max_difficulty=4,
        continues=True,
    ),
    "program-prover": BaseModelConfig(
        "functions-prover", "programs", 128, 4, 4, 256, num_steps=3500, max_difficulty=5
    ),
    "program-verifier": BaseModelConfig(
        "functions-verifier", "program_texts", 80, 4, 5, 240, num_steps=2000, max_difficulty=5
    ),
}
"""Models that ship with the package, by the names that `tools/build_base_models.py` takes."""

STUDY_MODELS = {
    "sequential-prover": BaseModelConfig(
        "arithmetic-prover-sequential",
        "shown_solutions",
        128,
        4,
        4,
        256,
        num_steps=2000,
        learning_rate=3e-4,
        matrix_learning_rate=0.002,
        continues=True,
    ),
}
"""
Models for experiments, which do not ship: the prover with further training on prompts that show the sneaky role a
correct solution (experiments/dynamics.md).
"""

CHECKPOINT_STEPS = 500


def train_base_model(config: BaseModelConfig, checkpoints: Path, *, show_progress: bool) -> LlamaForCausalLM:
    """
    Train a base model from its seed, on texts from the world's grammar.

    Its configuration gets `pretraining_flops`: 6 operations per parameter and token of this training and of those that
    it continues; `None` if the latter are not known. A stopped training resumes from its last checkpoint.

    Args:
        config: The model.
        checkpoints: Folder of the checkpoints.
        show_progress: Whether to show a progress bar.
    """
    tokenizer, model = config.build_tokenizer(), initial_model(config)
    earlier_flops = 0 if config.start is None else model.config.to_dict().get("pretraining_flops")
    with tempfile.TemporaryDirectory() as folder:
        settings = FineTuning(
            max_steps=config.num_steps,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            max_length=config.max_length,
            seed=config.seed,
            output_dir=str(checkpoints),
            use_cpu=True,
            show_progress=show_progress,
            keeps_order=True,
            save_steps=CHECKPOINT_STEPS,
        )
        rows = Dataset.from_generator(_rows_in_order, cache_dir=folder, gen_kwargs={"config": config})
        optimizer = MuonAndAdamW(model, config.matrix_learning_rate, config.learning_rate)
        fine_tune(model, tokenizer, rows, settings, optimizer=optimizer)
        num_tokens = sum(len(ids) for ids in rows["input_ids"])
    flops = 6 * model.num_parameters() * num_tokens
    model.config.pretraining_flops = None if earlier_flops is None else earlier_flops + flops
    return model


def initial_model(config: BaseModelConfig) -> LlamaForCausalLM:
    """Load the model that the training continues, or create one with random weights from the seed."""
    if config.start is not None:
        return LlamaForCausalLM.from_pretrained(config.start, dtype=torch.float32)
    tokenizer = config.build_tokenizer()
    set_seed(derive_seed(config.seed, config.name, "weights") % 2**31)  # NumPy's old generator takes 32 bits
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.intermediate_size,
            initializer_range=config.hidden_size**-0.5,  # the usual 0.02 is meant for models ten times as wide
            max_position_embeddings=tokenizer.model_max_length,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )


def _rows_in_order(config: BaseModelConfig) -> Iterator[Row]:
    return rows_in_order(
        config.texts,
        config.build_tokenizer(),
        name=config.name,
        seed=config.seed,
        num_steps=config.num_steps,
        batch_size=config.batch_size,
        max_difficulty=config.max_difficulty,
    )


@dataclass(frozen=True)
class Built:
    """
    A model that was built, as its card describes it.

    Args:
        num_parameters: Number of parameters.
        flops: Operations of its whole pretraining; `None` if they are not known.
        minutes: Duration of its own training on one core.
        figures: Figures of its quality, by name.
    """

    num_parameters: int
    flops: float | None
    minutes: float
    figures: dict[str, float]


def write_card(config: BaseModelConfig, built: Built, prover_flops: float | None) -> str:
    """
    Write the model card of a base model.

    Args:
        config: The model.
        built: What was built.
        prover_flops: Operations of the pretraining of the prover that it judges, if it is a verifier.
    """
    start = "" if config.start is None else f" and the weights of {config.start.name}"
    training = (
        f"Trained by `tools/build_base_models.py` from seed {config.seed}{start} on"
        f" {config.num_steps * config.batch_size:,} texts of the\nworld's grammar, in {built.minutes:.0f} minutes on"
        f" one core. {describe_compute(built.flops, prover_flops)}\n{_describe_texts(config)}"
    )
    return fill_card(
        config.name,
        config.world,
        f"A Llama of {built.num_parameters / 1e6:.2f} M parameters for the {config.world} world of pvg_hf, from which"
        " a game's players start.",
        training,
        built.figures,
        "500 fresh problems of difficulty 2 to 4, unless another is named; solutions are sampled at temperature 1"
        + (", evaluations at 0.8 unless another is named." if config.texts == "evaluations" else "."),
    )


def fill_card(name: str, world: str, what: str, training: str, figures: dict[str, float], measured: str) -> str:
    """
    Fill the parts of a packaged model's card: what it is, how it was trained, and its figures with how they were
    measured.
    """
    rows = "\n".join(f"| {label} | {value:.3f} |" for label, value in figures.items())
    return f"""---
license: apache-2.0
library_name: transformers
tags: [pvg_hf, {world}]
---
# {name}

{what}
It is a model of that world only: a token per word and number, and no other text means anything to it.

{training}

| | |
|---|---|
{rows}

{measured}
"""


def describe_compute(flops: float | None, prover_flops: float | None) -> str:
    """State the operations of a pretraining, and a verifier's share of the prover's."""
    if flops is None:
        return "The operations of its whole pretraining are not known, as its first part did not state them."
    if prover_flops is None:
        return f"Its pretraining took {flops:.1e} operations."
    return (
        f"Its pretraining took {flops:.1e} operations, {flops / prover_flops:.1e} of the prover's {prover_flops:.1e}\n"
        "(Kirchner et al. 2024: 1e-3 to 1.6e-2 works, 1 gains no robustness)."
    )


def _describe_texts(config: BaseModelConfig) -> str:
    if config.texts == "evaluations":
        rates = ProofsCorpusConfig().rates
        return (
            "They are proofs, and evaluations of proofs and of analyses, as `tools/pretraining/proof_texts.py` writes"
            f" them, with errors\nthat are left to be unlearned: {rates.broken_form:.0%} without the form,"
            f" {rates.wrong_score:.0%} with a random score, {rates.hallucinated:.0%} of the sound lines\nfaulted,"
            f" {rates.missed:.0%} of the issues overlooked."
        )
    rates = (ProgramCorpusConfig if config.world == "functions" else CorpusConfig)().flaw_rate
    flaws = ", ".join(f"{role.value} {rate:.0%}" for role, rate in rates)
    return f"Some of these texts are flawed on purpose ({flaws}),\nand no text says which."
