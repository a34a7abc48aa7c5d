"""Pairs that bring the noisy labels of both solutions."""

from statistics import mean

import pytest
import torch

from pvg_hf.trainers.reward.loss import noisy_labels
from tests.support.verifier_training import keys_of, llama, softplus, token_pairs, verifier_trainer

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


def test_bradley_terry_turns_pairs_round_and_leaves_ties_out(tmp_path, words):
    value, scores = loss_and_scores(tmp_path, words, token_pairs(6, **LABELS))
    strict = [(a - b) * (y - z) for a, b, (y, z) in zip(scores[:6], scores[6:], PAIRS) if y != z]
    assert len(strict) == 4
    assert value == pytest.approx(mean(softplus(-d) for d in strict), rel=1e-5)


def test_cross_entropy_takes_each_label(tmp_path, words):
    value, scores = loss_and_scores(tmp_path, words, token_pairs(6, **LABELS), loss="cross_entropy")
    labels = LABELS["chosen_label"] + LABELS["rejected_label"]
    assert value == pytest.approx(mean(softplus(-v if y else v) for v, y in zip(scores, labels)), rel=1e-5)


def test_noise_flips_the_labels_that_are_there():
    given = torch.tensor(PAIRS, dtype=torch.float32)
    flips = noisy_labels(keys_of(6), (0.4, 0.4), "label", seed=4) != torch.tensor([1.0, 0.0])
    noisy = noisy_labels(keys_of(6), (0.4, 0.4), "label", seed=4, labels=given)
    assert noisy.equal(torch.where(flips, 1 - given, given))
    assert flips.any()


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"correction": "exact", **RATES}, {}, "needs pairs that were chosen without regard to their noisy labels"),
        ({}, {"chosen_label": [1] * 6}, "`rejected_label` is missing"),
        ({"correction": "exact", "center": 0.0}, LABELS, "`correction=exact` is unbounded below"),
        ({"correction": "exact", "noise_level": "pair", "rho0": 0.1, "rho1": 0.1}, LABELS, "`noise_level` is `pair`"),
        ({"correction": "exact", "loss": "cross_entropy"}, LABELS, "not defined for `loss=cross_entropy`"),
        ({"correction": "exact", "rho0": 0.5, "rho1": 0.5}, LABELS, "must be below 1"),
    ],
)
def test_refused(tmp_path, words, settings, columns, message):
    with pytest.raises(ValueError, match=message):
        verifier_trainer(tmp_path, token_pairs(6, **columns), words, **settings)


def test_exact_takes_pairs_of_clean_labels_where_nothing_is_noisy(tmp_path, words):
    value, scores = loss_and_scores(tmp_path, words, token_pairs(6), correction="exact", rho0=0.0)
    assert value == pytest.approx(mean(softplus(b - a) for a, b in zip(scores[:6], scores[6:])), rel=1e-5)
