"""Losses and log-probabilities do not depend on padding, whatever token the tokenizer pads with, and on which side."""

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import LlamaForCausalLM

from pvg_hf.models.export import export_merged
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
from tests.conftest import make_tiny_llama
from tests.support.ppo_training import ppo_trainer
from tests.support.prover_batches import generate, token_logprobs
from tests.support.prover_training import loss_lines, prover_trainer
from tests.support.verifier_training import PADDINGS, make_tokenizer, softplus

LENGTHS = (1, 9, 3, 6)
ROWS = Dataset.from_list(
    [
        {"prompt": " ".join(["w1 w2 w3"] * length + [role_word]), "problem": f"w{length}", "role": role}
        for length in LENGTHS
        for role, role_word in (("helpful", "good"), ("sneaky", "bad"))
    ]
)
TRAINERS = {"grpo": prover_trainer, "ppo": ppo_trainer}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Folder of a language model of a few words, whose configuration has a padding token."""
    folder, tokenizer = tmp_path_factory.mktemp("base"), make_tokenizer(eos_token="[EOS]")
    make_tiny_llama(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def make_prover_trainer(algorithm: str, padding: str, base: str, folder):
    # Special in any case, because a solution's text leaves special tokens out.
    tokenizer = make_tokenizer(eos_token="[EOS]", additional_special_tokens=["[PAD]"], **PADDINGS[padding])
    settings = {"max_steps": 2, "beta": 0.1, "learning_rate": 1e-3, "log_completions": True}
    return TRAINERS[algorithm](base, folder, rows=ROWS, settings=settings, processing_class=tokenizer)


def train_prover(*args) -> list[dict[str, float]]:
    """
    The log's line of each step, without times and TRL's own shares of cut solutions, which count a sampled `[PAD]`.
    """
    trainer = make_prover_trainer(*args)
    trainer.train()
    lines = loss_lines(trainer)
    return [{key: line[key] for key in line if "time" not in key and "completions/" not in key} for line in lines]


@pytest.fixture(scope="module")
def expected_lines(base, tmp_path_factory):
    """The log of each algorithm's trainer, padding on the right with a padding token."""
    return {name: train_prover(name, "a padding token", base, tmp_path_factory.mktemp(name)) for name in TRAINERS}


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("algorithm", TRAINERS)
def test_a_provers_losses_do_not_depend_on_the_padding(algorithm, padding, base, expected_lines, tmp_path):
    for line, expected in zip(
        train_prover(algorithm, padding, base, tmp_path), expected_lines[algorithm], strict=True
    ):
        assert line == pytest.approx(expected, abs=1e-5, rel=1e-4, nan_ok=True)


@pytest.mark.parametrize("padding", PADDINGS)
def test_log_probabilities_are_those_of_the_solution_alone(padding, base, tmp_path):
    trainer = make_prover_trainer("grpo", padding, base, tmp_path)
    rows, ids, _, inputs = generate(trainer)
    assert len({len(row) for row in ids}) > 1
    with torch.no_grad():
        alone = token_logprobs(LlamaForCausalLM.from_pretrained(base), rows, trainer.processing_class, ids)
    for found, expected in zip(inputs["ref_per_token_logps"], alone, strict=True):
        torch.testing.assert_close(found[: len(expected)], expected, atol=1e-5, rtol=1e-5)


CHOSEN = ["good", "w1 good w2 w3 w4", "w5 w6 good", "good good"]
REJECTED = ["bad w1 w2 w3 w4 w5", "bad", "w2 bad", "w3 w4 bad"]
PROBLEMS = ["w1 w2 w3 w4 w5 w6 w7", "w2", "w3 w4", "w1"]


@pytest.mark.parametrize("lora", [None, LoraConfig(r=2, init_lora_weights=False)], ids=["whole", "adapter"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("scale", [None, 2.0], ids=["head", "likelihood"])
def test_a_verifiers_loss_and_scores_are_those_of_texts_alone(scale, padding, lora, base, tmp_path):
    tokenizer = make_tokenizer(eos_token="[EOS]", **PADDINGS[padding])
    verifier_input = VerifierInput("{{ problem }} {{ solution }}", "[EOS]", 64, scale)
    rows = [verifier_input.encode(tokenizer, PROBLEMS, texts) for texts in (CHOSEN, REJECTED)]
    torch.manual_seed(0)
    trainer = NoisyRewardTrainer(
        load_initial_verifier(base, likelihood_scale=scale),
        args=NoisyRewardConfig(
            str(tmp_path / "out"),
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            max_steps=1,
            logging_steps=1,
            per_device_train_batch_size=4,
            center=0.0,
        ),
        train_dataset=Dataset.from_dict(dict(zip(("chosen_ids", "rejected_ids"), rows, strict=True))),
        processing_class=tokenizer,
        verifier_input=verifier_input,
        peft_config=lora,
    )
    chosen, rejected = (read_alone(trainer.model, side) for side in rows)
    losses = [softplus(wrong - right) for right, wrong in zip(chosen, rejected, strict=True)]
    trainer.train()
    (line,) = loss_lines(trainer)
    assert line["loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)

    trainer.save_model(str(tmp_path / "verifier"))
    export_merged(tmp_path / "verifier", tmp_path / "merged", player="verifier")
    expected = read_alone(trainer.model, rows[0])
    for folder in ("verifier", "merged"):
        scores = VerifierScorer.from_pretrained(tmp_path / folder, device="cpu")(PROBLEMS, CHOSEN)
        assert scores == pytest.approx(expected, abs=2e-5)


@torch.no_grad()
def read_alone(model, rows: list[list[int]]) -> list[float]:
    """Score each input in one forward, without padding."""
    model.eval()
    ids = [torch.tensor([row]) for row in rows]
    return [model(input_ids=row, attention_mask=torch.ones_like(row)).logits.item() for row in ids]
