"""Which labels the trainer flips, and when it draws them anew."""

from itertools import product
from pathlib import Path

import pytest
import torch

from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.loss import clean_labels, mean_labels, noisy_labels, pair_loss
from tests.support.verifier_training import flips, keys_of, llama, token_pairs, verifier_trainer
from tests.support.weights import weights_of


def _train_on_whole_epochs(tmp_path, words, resample, *, batch_size=32, epochs=2, **settings) -> list[float]:
    """The share of flipped labels that each step saw; one step is a whole epoch of 32 pairs by default."""
    trainer = verifier_trainer(
        tmp_path,
        token_pairs(32),
        words,
        noise_resample=resample,
        noise_rho0=0.3,
        noise_rho1=0.3,
        num_train_epochs=epochs,
        per_device_train_batch_size=batch_size,
        **settings,
    )
    trainer.train()
    return flips(trainer)


def test_fixed_noise_is_that_of_the_solutions(tmp_path, words):
    labels = noisy_labels(keys_of(32), (0.3, 0.3), "label", seed=5)
    share = (labels != torch.tensor([1.0, 0.0])).float().mean().item()
    shares = _train_on_whole_epochs(tmp_path, words, "fixed", noise_seed=5, epochs=3)
    assert shares == pytest.approx([share] * 3)
    # in another order and in smaller batches, the same solutions are flipped
    shares = _train_on_whole_epochs(tmp_path, words, "fixed", noise_seed=5, seed=1, batch_size=8, epochs=1)
    assert sum(shares) / 4 == pytest.approx(share)


@pytest.mark.parametrize("resample", ["epoch", "step"])
def test_noise_is_drawn_anew(tmp_path, words, resample):
    shares = _train_on_whole_epochs(tmp_path, words, resample, noise_seed=5)
    for moment, share in enumerate(shares):
        labels = noisy_labels(keys_of(32), (0.3, 0.3), "label", seed=5, moment=(resample, moment))
        assert share == pytest.approx((labels != torch.tensor([1.0, 0.0])).float().mean().item())
    assert len(set(shares)) == 2


def test_epoch_noise_lasts_the_epoch(tmp_path, words):
    shares = _train_on_whole_epochs(tmp_path, words, "epoch", noise_seed=5, batch_size=8)
    for epoch in (0, 1):
        labels = noisy_labels(keys_of(32), (0.3, 0.3), "label", seed=5, moment=("epoch", epoch))
        expected = (labels != torch.tensor([1.0, 0.0])).float().mean().item()
        assert sum(shares[4 * epoch : 4 * epoch + 4]) / 4 == pytest.approx(expected)


def test_a_pair_keeps_its_number_when_others_are_filtered(tmp_path, words):
    dataset = token_pairs(8).map(lambda row, i: {"chosen_ids": row["chosen_ids"] * (2 - i % 2)}, with_indices=True)
    trainer = verifier_trainer(tmp_path, dataset, words, max_length=4)
    assert trainer.train_dataset["row_index"][:] == [1, 3, 5, 7]


@pytest.mark.parametrize("resample", ["epoch", "step"])
def test_resumed_training_equals_uninterrupted_training(tmp_path, words, resample):
    def build(name):
        settings = {"save_strategy": "steps", "save_steps": 3, "max_steps": 4, "per_device_train_batch_size": 4}
        noise = {"noise_resample": resample, "noise_rho0": 0.3, "noise_rho1": 0.3}
        return verifier_trainer(tmp_path / name, token_pairs(8), words, **settings, **noise)

    whole = build("whole")
    whole.train()
    resumed = build("resumed")
    resumed.train(resume_from_checkpoint=str(Path(whole.args.output_dir) / "checkpoint-3"))
    for name, weight in weights_of(whole.model).items():
        assert resumed.model.get_parameter(name).equal(weight), name
    assert flips(resumed) == flips(whole)


def test_soft_labels_cost_what_noisy_ones_cost_in_the_mean():
    """Over the four ways in which two independent labels can flip, for cross-entropy."""
    args = NoisyRewardConfig("out", loss="cross_entropy", noise_resample="mean", use_cpu=True, report_to="none")
    chosen, rejected, (rho0, rho1) = torch.tensor([1.5]), torch.tensor([-0.5]), (0.1, 0.3)
    expected = sum(
        (rho1 if flips_chosen else 1 - rho1)
        * (rho0 if flips_rejected else 1 - rho0)
        * pair_loss(chosen, rejected, args, labels=torch.tensor([[1.0 - flips_chosen, float(flips_rejected)]]))
        for flips_chosen, flips_rejected in product((0, 1), repeat=2)
    )
    soft = pair_loss(chosen, rejected, args, labels=mean_labels(clean_labels(1), (rho0, rho1)))
    torch.testing.assert_close(soft, expected)


def test_soft_labels_are_what_the_trainer_trains_on(tmp_path, words):
    settings = {"loss": "cross_entropy", "noise_rho0": 0.1, "noise_rho1": 0.3, "center": 0.0, "max_steps": 1}
    trainer = verifier_trainer(tmp_path, token_pairs(8), words, noise_resample="mean", **settings)
    batch, model = next(iter(trainer.get_train_dataloader())), llama()
    scores = model(batch["input_ids"], attention_mask=batch["attention_mask"]).logits.squeeze(-1)
    log_one, log_zero = torch.nn.functional.logsigmoid(scores), torch.nn.functional.logsigmoid(-scores)
    labels = torch.cat([torch.full((8,), 0.7), torch.full((8,), 0.1)])
    expected = -(labels * log_one + (1 - labels) * log_zero).mean().item()
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(expected, abs=1e-4)
