"""The loss of pairs and of the trainer, worked by hand and as TRL computes it."""

import math

import pytest
import torch
from accelerate.data_loader import prepare_data_loader
from datasets import Dataset
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from transformers import TrainerCallback

from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.loss import noisy_labels, pair_loss
from pvg_hf.trainers.reward.micro_batches import sort_steps
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
from tests.support.verifier_training import keys_of, llama, softplus, text_pairs, token_pairs, verifier_trainer

CHOSEN, REJECTED = torch.tensor([1.0, 0.5, 2.0]), torch.tensor([0.0, 1.5, -1.0])  # differences 1, -1, 3
LABELS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # as it is, reversed, tied
CENTRING = 0.1 * (1 + 0.25 + 4 + 0 + 2.25 + 1) / 6


def _config(**settings) -> NoisyRewardConfig:
    return NoisyRewardConfig("out", report_to="none", **{"center": 0.1, **settings})


def _sp(value: float) -> float:
    return math.log1p(math.exp(value))


def test_bradley_terry_without_labels_by_hand():
    loss = pair_loss(CHOSEN, REJECTED, _config())
    assert loss.item() == pytest.approx((_sp(-1) + _sp(1) + _sp(-3)) / 3 + CENTRING)


def test_bradley_terry_swaps_reversed_pairs_and_excludes_ties():
    loss = pair_loss(CHOSEN, REJECTED, _config(), labels=LABELS)
    assert loss.item() == pytest.approx((_sp(-1) + _sp(-1)) / 2 + CENTRING)


def test_bradley_terry_takes_the_assumed_flip_rate():
    args = _config(correction="smoothing", rho0=0.2, rho1=0.2)  # e = .04 / .68 = 1 / 17
    loss = pair_loss(CHOSEN, REJECTED, args, correction="smoothing")
    smoothed = sum(16 / 17 * _sp(-d) + 1 / 17 * _sp(d) for d in (1, -1, 3)) / 3
    assert loss.item() == pytest.approx(smoothed + CENTRING)


def test_a_margin_changes_the_pair_loss_and_not_the_centring():
    loss = pair_loss(CHOSEN, REJECTED, _config(), margin=torch.tensor([0.5, 0.0, 1.0]))
    assert loss.item() == pytest.approx((_sp(-0.5) + _sp(1) + _sp(-2)) / 3 + CENTRING)


def test_cross_entropy_takes_the_noisy_labels():
    args = _config(loss="cross_entropy")
    clean = (_sp(-1) + _sp(-0.5) + _sp(-2) + _sp(0) + _sp(1.5) + _sp(-1)) / 6
    assert pair_loss(CHOSEN, REJECTED, args).item() == pytest.approx(clean + CENTRING)
    noisy = (_sp(-1) + _sp(0.5) + _sp(-2) + _sp(0) + _sp(-1.5) + _sp(1)) / 6
    assert pair_loss(CHOSEN, REJECTED, args, labels=LABELS).item() == pytest.approx(noisy + CENTRING)


def test_cross_entropy_takes_the_assumed_rates():
    args = _config(loss="cross_entropy", correction="backward", rho0=0.1, rho1=0.3)
    loss = pair_loss(torch.tensor([1.0]), torch.tensor([0.5]), args, correction="backward")
    label_1 = (0.9 * _sp(-1) - 0.3 * _sp(1)) / 0.6
    label_0 = (0.7 * _sp(0.5) - 0.1 * _sp(-0.5)) / 0.6
    assert loss.item() == pytest.approx((label_1 + label_0) / 2 + 0.1 * (1 + 0.25) / 2)


# The loss of a difference d = V(z+) - V(z-), and, at equal rates for both labels, also that of a score V whose label
# is 1, or of -V whose label is 0. Rates of .2 are assumed.
LOSSES = {
    "none": lambda d: softplus(-d),
    "smoothing": lambda d: 0.8 * softplus(-d) + 0.2 * softplus(d),
    "forward": lambda d: -math.log(0.2 + 0.6 / (1 + math.exp(-d))),
    "backward": lambda d: (0.8 * softplus(-d) - 0.2 * softplus(d)) / 0.6,
}


@pytest.mark.parametrize("noise_level", [None, "label", "pair"])
@pytest.mark.parametrize(
    ("loss", "correction"),
    [("bradley_terry", correction) for correction in LOSSES]
    + [("cross_entropy", correction) for correction in LOSSES if correction != "smoothing"],
)
def test_loss_of_a_batch_by_hand(tmp_path, words, loss, correction, noise_level):
    noise, labels = {}, [[1, 0]] * 6
    if noise_level is not None:
        noise = {"noise_level": noise_level, "noise_rho0": 0.4, "noise_rho1": 0.4, "noise_seed": 4}
        labels = noisy_labels(keys_of(6), (0.4, 0.4), noise_level, seed=4).tolist()
        assert labels != [[1, 0]] * 6
    model = llama()
    with torch.no_grad():
        model.score.weight *= 50  # scores that differ
    assumed = {"rho0": 0.2, "rho1": 0.2, "flip_rate": 0.2}
    settings = {"loss": loss, "correction": correction, "center": 0.01, **assumed, **noise}
    trainer = verifier_trainer(tmp_path, token_pairs(6), words, model, **settings)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(6)])
    with torch.no_grad():
        scores = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, 0].tolist()
        value = trainer.compute_loss(model.train(), batch).item()

    pairs = zip(scores[:6], scores[6:], labels, strict=True)
    if loss == "bradley_terry":  # a tie adds nothing, to the count neither
        terms = [(chosen - rejected) * (y[0] - y[1]) for chosen, rejected, y in pairs if y[0] != y[1]]
    else:
        terms = [score * (2 * y - 1) for chosen, rejected, ys in pairs for score, y in zip((chosen, rejected), ys)]
    expected = sum(LOSSES[correction](term) for term in terms) / len(terms)
    expected += 0.01 * sum(score**2 for score in scores) / 12
    assert value == pytest.approx(expected, rel=1e-5)


def test_plain_settings_are_the_loss_of_trl(tmp_path, words):
    trainer = verifier_trainer(tmp_path, token_pairs(4), words, center=0.0)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(4)])
    tokens = {key: batch[key] for key in ("input_ids", "attention_mask")}
    ours = trainer.compute_loss(trainer.model.train(), batch)
    theirs = super(NoisyRewardTrainer, trainer).compute_loss(trainer.model, tokens)
    torch.testing.assert_close(ours, theirs)


def test_margin_is_that_of_trl(tmp_path, words):
    trainer = verifier_trainer(tmp_path, token_pairs(4, margin=[0.0, 0.5, 1.0, 2.0]), words, center=0.0)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(4)])
    tokens = {key: batch[key] for key in ("input_ids", "attention_mask", "margin")}
    ours = trainer.compute_loss(trainer.model.train(), batch)
    theirs = super(NoisyRewardTrainer, trainer).compute_loss(trainer.model, tokens)
    torch.testing.assert_close(ours, theirs)
    assert trainer.evaluate(trainer.train_dataset)["eval_loss"] == pytest.approx(theirs.item(), abs=1e-6)


def test_margin_is_refused_by_a_corrected_loss(tmp_path, words):
    with pytest.raises(ValueError, match="column `margin`"):
        verifier_trainer(tmp_path, token_pairs(2, margin=[1.0, 1.0]), words, correction="forward", rho0=0.1)


class _KeepGradients(TrainerCallback):
    """Keeps the gradients of the last optimiser step."""

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


TIES = {"noise_rho0": 0.4, "noise_rho1": 0.4}  # labels flip one by one, so that pairs become ties


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"noise_level": "pair", "noise_rho0": 0.4, "noise_rho1": 0.4},
        TIES,
        {**TIES, "correction": "forward"},
        {**TIES, "correction": "backward"},
        {**TIES, "correction": "smoothing"},
        {**TIES, "correction": "exact"},
        {**TIES, "loss": "cross_entropy", "correction": "backward", "noise_resample": "mean"},
        {"invariance": "balanced", "environment_column": "source"},
    ],
    ids=str,
)
@pytest.mark.parametrize("num_pairs", [8, 7], ids=["even", "the last micro-batch is short"])
def test_accumulated_gradient_is_that_of_one_batch(tmp_path, words, settings, num_pairs):
    rows = token_pairs(num_pairs, source=["ab"[i % 2] for i in range(num_pairs)])
    rows = rows.map(
        lambda row, i: {"chosen_ids": row["chosen_ids"] + [5] * (i % 4)}, with_indices=True
    )  # of many lengths
    gradients, losses = [], []
    for batch_size, accumulation in ((8, 1), (2, 4)):
        keep = _KeepGradients()
        trainer = verifier_trainer(
            tmp_path,
            rows,
            words,
            callbacks=[keep],
            max_steps=1,
            max_grad_norm=0.0,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            **settings,
        )
        trainer.train()
        gradients.append(keep.gradients)
        losses.append(trainer.state.log_history[0]["loss"])
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=0)
    assert any(gradient.abs().max() > 1e-3 for gradient in gradients[0].values())
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


def test_pairs_of_a_step_are_sorted_by_length_before_they_are_divided(tmp_path, words):
    rows = token_pairs(16).map(lambda row, i: {"chosen_ids": row["chosen_ids"] + [5] * (i % 8)}, with_indices=True)
    steps = {}
    for accumulation in (1, 4):
        batch_size = 8 // accumulation
        trainer = verifier_trainer(
            tmp_path, rows, words, per_device_train_batch_size=batch_size, gradient_accumulation_steps=accumulation
        )
        steps[accumulation] = [batch["row_index"].tolist() for batch in trainer.get_train_dataloader()]
        widths = [batch["input_ids"].shape[1] for batch in trainer.get_train_dataloader()]
    whole = [[row for part in steps[4][i : i + 4] for row in part] for i in (0, 4)]
    assert whole != steps[1]
    assert [sorted(step) for step in whole] == [sorted(step) for step in steps[1]]
    assert [sorted(widths[i : i + 4], reverse=True) for i in (0, 4)] == [widths[:4], widths[4:]]


@pytest.mark.parametrize("order", [SequentialSampler, RandomSampler], ids=["in a fixed order", "in random order"])
def test_two_processes_share_the_sorted_pairs_of_a_step(order):
    lengths = [3, 9, 5, 7, 2, 8, 4, 6, 1, 12, 11, 10, 16, 13, 15, 14]
    pairs = Dataset.from_dict({"chosen_ids": [[5] * length for length in lengths], "rejected_ids": [[5]] * 16})
    batches = []
    for process in range(2):
        loader = prepare_data_loader(
            DataLoader(range(16), batch_size=2, sampler=order(range(16))),
            num_processes=2,
            process_index=process,
            use_seedable_sampler=True,
            data_seed=0,
            put_on_device=False,
        )
        sort_steps(loader, pairs, step_size=8)
        loader.set_epoch(1)
        batches.append([[lengths[row] for row in batch.tolist()] for batch in loader])
    for step in (slice(0, 2), slice(2, 4)):
        at_once = zip(*(of_process[step] for of_process in batches), strict=True)
        taken = [length for both in at_once for batch in both for length in batch]
        assert taken == sorted(taken, reverse=True)
        assert len(set(taken)) == 8


def test_a_loss_that_is_not_finite_stops_training(tmp_path, words):
    model = llama()
    trainer = verifier_trainer(tmp_path, text_pairs(8), words, model, max_steps=2)
    with torch.no_grad():
        model.score.weight.fill_(torch.inf)
    with pytest.raises(FloatingPointError, match=r"step 0 is (nan|inf).* `learning_rate`"):
        trainer.train()


def test_scores_of_another_shape_are_refused(tmp_path, words):
    trainer = verifier_trainer(tmp_path, token_pairs(2), words)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(2)])
    batch["row_index"] = batch["row_index"][:1]
    with pytest.raises(ValueError, match=r"shape \(4, 1\) .*1 pairs"):
        trainer.compute_loss(trainer.model, batch)
