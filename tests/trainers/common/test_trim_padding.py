import pytest
import torch

from pvg_hf.trainers.common.grpo import trim_padding
from tests.support.ppo_training import ppo_trainer
from tests.support.prover_training import LORA, loss_lines, prover_trainer


def test_columns_that_only_pad_are_left_out():
    batch = {
        "prompt_ids": torch.tensor([[0, 0, 5, 6], [0, 0, 0, 7]]),
        "prompt_mask": torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1]]),
        "completion_ids": torch.tensor([[1, 2, 0], [3, 0, 0]]),
        "completion_mask": torch.tensor([[1, 1, 0], [1, 0, 0]]),
        "ref_per_token_logps": torch.tensor([[-1.0, -2.0, 0.0], [-3.0, 0.0, 0.0]]),
        "advantages": torch.tensor([0.5, -0.5]),
        "num_items_in_batch": torch.tensor(3),
    }
    trimmed = {name: value.tolist() for name, value in trim_padding(batch).items()}
    assert trimmed == {
        "prompt_ids": [[5, 6], [0, 7]],
        "prompt_mask": [[1, 1], [0, 1]],
        "completion_ids": [[1, 2], [3, 0]],
        "completion_mask": [[1, 1], [1, 0]],
        "ref_per_token_logps": [[-1.0, -2.0], [-3.0, 0.0]],
        "advantages": [0.5, -0.5],
        "num_items_in_batch": 3,
    }


def test_a_batch_whose_completions_are_all_masked_keeps_a_column():
    batch = {name: torch.zeros(2, 3, dtype=torch.long) for name in ("completion_ids", "completion_mask")}
    batch |= {name: torch.ones(2, 2, dtype=torch.long) for name in ("prompt_ids", "prompt_mask")}
    assert {name: value.shape[1] for name, value in trim_padding(batch).items()} == {
        **{"completion_ids": 1, "completion_mask": 1},
        **{"prompt_ids": 2, "prompt_mask": 2},
    }


@pytest.mark.parametrize("make", [prover_trainer, ppo_trainer])
def test_losses_are_those_with_all_padding(make, prover, tmp_path, monkeypatch):
    """Micro-batches of 2 rows, of which most are shorter than the longest of the batch."""
    settings = {"max_steps": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "beta": 0.1}
    if make is ppo_trainer:
        settings = {**settings, "num_iterations": 1}

    def losses():
        torch.manual_seed(0)
        trainer = make(prover, tmp_path, settings={**settings, "num_generations": 2}, peft_config=LORA)
        trainer.train()
        return [(line["loss"], line["grad_norm"]) for line in loss_lines(trainer)]

    widths = []

    def note(batch):
        widths.append((batch["completion_mask"].shape[1], trim_padding(batch)["completion_mask"].shape[1]))
        return trim_padding(batch)

    monkeypatch.setattr("pvg_hf.trainers.common.grpo.trim_padding", note)
    trimmed = losses()
    assert any(after < before for before, after in widths)
    monkeypatch.setattr("pvg_hf.trainers.common.grpo.trim_padding", lambda batch: batch)
    assert trimmed == [pytest.approx(line, rel=1e-3, abs=1e-5) for line in losses()]
