"""Flipped labels and their draws, and pairs that have noisy labels of both solutions."""

from itertools import product
from pathlib import Path
from statistics import mean

import pytest
import torch

from pvg_hf.noise.draws import label_draw
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.loss import clean_labels, mean_labels, noisy_labels, pair_loss
from tests.support.verifier_training import flips, keys_of, llama, softplus, token_pairs, verifier_trainer
from tests.support.weights import weights_of


def _keys(num_pairs: int) -> torch.Tensor:
    return torch.arange(2 * num_pairs).view(num_pairs, 2)


def test_no_noise_leaves_the_labels():
    assert noisy_labels(_keys(5), (0.0, 0.0), "label", seed=0).equal(clean_labels(5))


def test_a_label_flips_where_its_draw_is_below_its_rate():
    rho0, rho1 = 0.3, 0.6
    labels = noisy_labels(_keys(50), (rho0, rho1), "label", seed=0)
    for row, (chosen, rejected) in enumerate(labels.tolist()):
        assert chosen == (0.0 if label_draw(0, 2 * row) < rho1 else 1.0)
        assert rejected == (1.0 if label_draw(0, 2 * row + 1) < rho0 else 0.0)


def test_a_solution_has_the_same_label_in_all_its_pairs():
    keys = (
        torch.tensor([[1, 2], [1, 3], [4, 2], [4, 3]]).repeat(50, 1)
        + 4 * torch.arange(50).repeat_interleave(4)[:, None]
    )
    labels = noisy_labels(keys, (0.4, 0.4), "label", seed=0).view(50, 4, 2)
    assert labels[:, 0, 0].equal(labels[:, 1, 0])
    assert labels[:, 0, 1].equal(labels[:, 2, 1])
    assert labels[:, 1, 1].equal(labels[:, 3, 1])
    assert 0 < labels[:, :, 0].mean() < 1


def test_a_pair_flips_as_a_whole():
    labels = noisy_labels(_keys(200), (0.4, 0.4), "pair", seed=0)
    assert (labels.sum(dim=1) == 1).all()
    assert 0 < labels[:, 1].sum() < 200


def test_pairs_do_not_depend_on_their_batch():
    whole = noisy_labels(_keys(20), (0.3, 0.3), "label", seed=0)
    parts = torch.cat([noisy_labels(row[None], (0.3, 0.3), "label", seed=0) for row in _keys(20).flip(0)])
    assert parts.flip(0).equal(whole)


def test_a_higher_rate_flips_all_that_a_lower_one_does():
    low = noisy_labels(_keys(300), (0.1, 0.1), "label", seed=0) != clean_labels(300)
    high = noisy_labels(_keys(300), (0.3, 0.3), "label", seed=0) != clean_labels(300)
    assert (high | ~low).all()
    assert high.sum() > low.sum() > 0


@pytest.mark.parametrize(("seed", "moment"), [(1, ()), (0, ("epoch", 1)), (0, ("step", 3))])
def test_another_seed_or_moment_gives_other_draws(seed, moment):
    first = noisy_labels(_keys(100), (0.3, 0.3), "label", seed=0)
    assert not noisy_labels(_keys(100), (0.3, 0.3), "label", seed=seed, moment=moment).equal(first)


@pytest.mark.parametrize(("rho0", "rho1"), [(0.1, 0.1), (0.05, 0.3)])
def test_flip_shares_match_the_rates(rho0, rho1):
    num_pairs = 4000
    labels = noisy_labels(_keys(num_pairs), (rho0, rho1), "label", seed=0)
    is_flipped = labels != clean_labels(num_pairs)
    # Shares are means of n = 4,000 independent draws of probability p, with standard deviation sqrt(p (1 - p) / n), at
    # most .0074 for the three p below. Four of them, .03, are passed by chance in fewer than 1 of 15,000 seeds; the
    # seed is fixed.
    bound = 4 * (0.34 * 0.66 / num_pairs) ** 0.5
    assert is_flipped[:, 0].double().mean() == pytest.approx(rho1, abs=bound)
    assert is_flipped[:, 1].double().mean() == pytest.approx(rho0, abs=bound)
    is_tied = labels[:, 0] == labels[:, 1]
    assert is_tied.double().mean() == pytest.approx(rho1 * (1 - rho0) + rho0 * (1 - rho1), abs=bound)


def _train_on_whole_epochs(tmp_path, words, resample, *, batch_size=32, epochs=2, **settings) -> list[float]:
    """Share of flipped labels in each step; by default a step is a whole epoch of 32 pairs."""
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
def test_noise_is_resampled(tmp_path, words, resample):
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
@pytest.mark.parametrize("step", [3, 5], ids=["a step", "the last step, within an epoch"])
def test_resumed_training_equals_uninterrupted_training(tmp_path, words, step, resample):
    def build(name):
        settings = {"save_strategy": "steps", "save_steps": 3, "max_steps": 5, "per_device_train_batch_size": 4}
        noise = {"noise_resample": resample, "noise_rho0": 0.3, "noise_rho1": 0.3}
        return verifier_trainer(tmp_path / name, token_pairs(8), words, **settings, **noise)

    whole = build("whole")
    whole.train()
    resumed = build("resumed")
    resumed.train(resume_from_checkpoint=str(Path(whole.args.output_dir) / f"checkpoint-{step}"))
    for name, weight in weights_of(whole.model).items():
        assert resumed.model.get_parameter(name).equal(weight), name
    assert flips(resumed) == flips(whole)


def test_soft_labels_cost_what_noisy_ones_cost_in_the_mean():
    """The mean is over the four ways in which two independent labels can flip, for cross-entropy."""
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


LABELS = {"chosen_label": [1, 1, 0, 0, 1, 0], "rejected_label": [0, 1, 0, 1, 0, 1]}
PAIRS = list(zip(LABELS["chosen_label"], LABELS["rejected_label"], strict=True))
RATES = {"rho0": 0.1, "rho1": 0.2}


def unbiased(label, rho0=0.1, rho1=0.2):
    return (label - rho0) / (1 - rho0 - rho1)


def exact(margin, labels, **rates):
    first, second = (unbiased(label, **rates) for label in labels)
    return first * (1 - second) * softplus(-margin) + second * (1 - first) * softplus(margin)


def loss_and_scores(tmp_path, words, dataset, **settings):
    model = llama()
    with torch.no_grad():
        model.score.weight *= 50  # scores that differ
    trainer = verifier_trainer(tmp_path, dataset, words, model, center=0.01, **settings)
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(6)])
    with torch.no_grad():
        tokens = {key: batch[key] for key in ("input_ids", "attention_mask")}
        scores = model(**tokens).logits[:, 0].tolist()
        value = trainer.compute_loss(model.train(), batch).item()
    return value - 0.01 * mean(score**2 for score in scores), scores


def test_exact_loss_of_a_batch(tmp_path, words):
    dataset = token_pairs(6, **LABELS)
    value, scores = loss_and_scores(tmp_path, words, dataset, correction="exact", **RATES)
    margins = [chosen - rejected for chosen, rejected in zip(scores[:6], scores[6:])]
    assert value == pytest.approx(mean(exact(d, labels) for d, labels in zip(margins, PAIRS)), rel=1e-5)


def test_exact_loss_under_injected_noise_takes_pairs_of_clean_labels(tmp_path, words):
    noise = {"noise_rho0": 0.4, "noise_rho1": 0.4, "noise_seed": 4}
    value, scores = loss_and_scores(tmp_path, words, token_pairs(6), correction="exact", **noise)
    labels = noisy_labels(keys_of(6), (0.4, 0.4), "label", seed=4).tolist()
    assert labels != [[1, 0]] * 6
    terms = [
        exact(chosen - rejected, pair, rho0=0.4, rho1=0.4)
        for chosen, rejected, pair in zip(scores[:6], scores[6:], labels)
    ]
    assert value == pytest.approx(mean(terms), rel=1e-5)


def test_bradley_terry_swaps_pairs_and_excludes_ties(tmp_path, words):
    value, scores = loss_and_scores(tmp_path, words, token_pairs(6, **LABELS))
    strict = [(a - b) * (y - z) for a, b, (y, z) in zip(scores[:6], scores[6:], PAIRS) if y != z]
    assert len(strict) == 4
    assert value == pytest.approx(mean(softplus(-d) for d in strict), rel=1e-5)


def test_cross_entropy_takes_each_label(tmp_path, words):
    value, scores = loss_and_scores(tmp_path, words, token_pairs(6, **LABELS), loss="cross_entropy")
    labels = LABELS["chosen_label"] + LABELS["rejected_label"]
    assert value == pytest.approx(mean(softplus(-v if y else v) for v, y in zip(scores, labels)), rel=1e-5)


def test_noise_flips_existing_labels():
    given = torch.tensor(PAIRS, dtype=torch.float32)
    flips = noisy_labels(keys_of(6), (0.4, 0.4), "label", seed=4) != torch.tensor([1.0, 0.0])
    noisy = noisy_labels(keys_of(6), (0.4, 0.4), "label", seed=4, labels=given)
    assert noisy.equal(torch.where(flips, 1 - given, given))
    assert flips.any()


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"correction": "exact", **RATES}, {}, "needs pairs that were chosen regardless of their noisy labels"),
        ({}, {"chosen_label": [1] * 6}, "`rejected_label` is missing"),
        ({"correction": "exact", "center": 0.0}, LABELS, "`correction=exact` is unbounded below"),
        ({"correction": "exact", "noise_level": "pair", "rho0": 0.1, "rho1": 0.1}, LABELS, "`noise_level` is `pair`"),
        ({"correction": "exact", "loss": "cross_entropy"}, LABELS, "not defined for `loss=cross_entropy`"),
        ({"correction": "exact", "rho0": 0.5, "rho1": 0.5}, LABELS, "must be below 1"),
    ],
)
def test_label_columns_that_cannot_be_used_are_errors(tmp_path, words, settings, columns, message):
    with pytest.raises(ValueError, match=message):
        verifier_trainer(tmp_path, token_pairs(6, **columns), words, **settings)


def test_exact_takes_pairs_of_clean_labels_where_nothing_is_noisy(tmp_path, words):
    value, scores = loss_and_scores(tmp_path, words, token_pairs(6), correction="exact", rho0=0.0)
    assert value == pytest.approx(mean(softplus(b - a) for a, b in zip(scores[:6], scores[6:])), rel=1e-5)
