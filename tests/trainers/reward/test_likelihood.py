"""The verifier's trainer on a language model that scores by likelihood."""

import pytest
from datasets import Dataset

from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

PROBLEMS = [f"Ana has {number} pens." for number in range(2, 8)]
CORRECT = [f"Ana has {number}\n#### {number}" for number in range(2, 8)]
INCORRECT = [f"Ana has {number}\n#### {number + 1}" for number in range(2, 8)]


def test_training_on_pairs_makes_correct_solutions_likelier(tiny_prover, tokenizer, tmp_path):
    verifier_input = VerifierInput("{{ problem }}\n{{ solution }}", tokenizer.eos_token, 64, likelihood_scale=10.0)
    ids = {
        f"{side}_ids": verifier_input.encode(tokenizer, PROBLEMS, texts)
        for side, texts in (("chosen", CORRECT), ("rejected", INCORRECT))
    }
    args = NoisyRewardConfig(
        str(tmp_path),
        max_steps=40,
        learning_rate=0.01,
        per_device_train_batch_size=6,
        report_to="none",
        save_strategy="no",
    )
    trainer = NoisyRewardTrainer(
        load_initial_verifier(str(tiny_prover), likelihood_scale=10.0),
        args=args,
        train_dataset=Dataset.from_dict(ids),
        processing_class=tokenizer,
        verifier_input=verifier_input,
    )
    trainer.train()
    trainer.save_model(str(tmp_path / "verifier"))
    scorer = VerifierScorer.from_pretrained(tmp_path / "verifier")
    margins = [
        right - wrong for right, wrong in zip(scorer(PROBLEMS, CORRECT), scorer(PROBLEMS, INCORRECT), strict=True)
    ]
    assert min(margins) > 0
    assert sum(margins) / len(margins) > 1


def test_its_input_format_is_required(tiny_prover, tokenizer, tmp_path):
    model = load_initial_verifier(str(tiny_prover), likelihood_scale=10.0)
    pairs = Dataset.from_dict({"prompt": PROBLEMS, "chosen": CORRECT, "rejected": INCORRECT})
    with pytest.raises(ValueError, match="pass that `verifier_input`"):
        NoisyRewardTrainer(
            model,
            args=NoisyRewardConfig(str(tmp_path), report_to="none"),
            train_dataset=pairs,
            processing_class=tokenizer,
        )
