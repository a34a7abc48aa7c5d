"""Environments in the verifier's training."""

from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
import torch
from transformers import TrainerCallback

from tests.support.verifier_training import llama, softplus, token_pairs, verifier_trainer
from tests.support.weights import weights_of

NAMES = ["base", "base", "sneaky", "base", "sneaky", "base"]


def varied_llama():
    """A verifier whose scores differ."""
    model = llama()
    with torch.no_grad():
        model.score.weight *= 50
    return model


def loss_of_all(trainer, num_pairs=6):
    """The loss of one batch and the differences and squares of its scores."""
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(num_pairs)])
    with torch.no_grad():
        tokens = {key: batch[key] for key in ("input_ids", "attention_mask")}
        scores = trainer.model(**tokens).logits[:, 0].tolist()
        value = trainer.compute_loss(trainer.model.train(), batch).item()
    margins = [chosen - rejected for chosen, rejected in zip(scores[:num_pairs], scores[num_pairs:], strict=True)]
    return value, margins, mean(score**2 for score in scores)


@pytest.mark.parametrize("weight", [0.5, 20.0])
def test_v_rex_loss_of_a_batch(tmp_path, words, weight):
    settings = {"invariance": "vrex", "invariance_weight": weight, "center": 0.01}
    trainer = verifier_trainer(tmp_path, token_pairs(6, environment=NAMES), words, varied_llama(), **settings)
    value, margins, square = loss_of_all(trainer)
    risks = [mean(softplus(-d) for d, name in zip(margins, NAMES) if name == e) for e in ("base", "sneaky")]
    variance = mean((risk - mean(risks)) ** 2 for risk in risks)
    assert variance > 1e-4
    expected = (mean(risks) + weight * variance + 0.01 * square) / max(weight, 1)
    assert value == pytest.approx(expected, rel=1e-5)
    figures = {key: values[0] for key, values in trainer._metrics["train"].items()}
    assert (figures["risk/base"], figures["risk/sneaky"]) == pytest.approx(tuple(risks), rel=1e-5)
    assert (figures["penalty"], figures["penalty_weight"]) == (pytest.approx(variance, rel=1e-4), weight)
    assert figures["num_environments"] == 2


def test_noise_turns_pairs_round_and_leaves_ties_out_of_the_risks(tmp_path, words):
    labels = {"chosen_label": [1, 0, 1, 1, 0, 1], "rejected_label": [0, 1, 0, 1, 0, 0]}
    settings = {"invariance": "vrex", "invariance_weight": 1.0, "center": 0.0}
    dataset = token_pairs(6, environment=NAMES, **labels)
    value, margins, _ = loss_of_all(verifier_trainer(tmp_path, dataset, words, varied_llama(), **settings))
    risks = [mean(map(softplus, (-margins[0], margins[1], -margins[5]))), softplus(-margins[2])]
    assert value == pytest.approx(mean(risks) + (risks[0] - risks[1]) ** 2 / 4, rel=1e-5)


def test_a_batch_of_ties_adds_the_centring_and_no_more(tmp_path, words):
    labels = {"chosen_label": [1] * 6, "rejected_label": [1] * 6}
    settings = {"invariance": "irmv1", "center": 0.01}
    dataset = token_pairs(6, environment=NAMES, **labels)
    value, _, square = loss_of_all(verifier_trainer(tmp_path, dataset, words, varied_llama(), **settings))
    assert value == pytest.approx(0.01 * square)


def logged(trainer, key):
    return [entry[key] for entry in trainer.state.log_history if key in entry]


class _Moments(TrainerCallback):
    """How many steps the optimiser's moments have seen, after each step."""

    def __init__(self):
        self.ages = []

    def on_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
        self.ages.append({int(moments["step"]) for moments in optimizer.state.values()})


@pytest.mark.parametrize(
    ("warmup", "expected", "ages"),
    [(2, [0, 0, 100, 100], [1, 2, 1, 2]), (0, [100] * 4, [1, 2, 3, 4]), (None, [0, 100, 100, 100], [1, 1, 2, 3])],
)
def test_penalty_is_switched_on_and_moments_are_forgotten(tmp_path, words, warmup, expected, ages):
    moments = _Moments()
    settings = {"invariance": "irmv1", "invariance_warmup_steps": warmup, "max_steps": 4}
    trainer = verifier_trainer(tmp_path, token_pairs(6, environment=NAMES), words, callbacks=[moments], **settings)
    trainer.train()
    assert logged(trainer, "penalty_weight") == expected
    assert moments.ages == [{age} for age in ages]


def test_a_single_environment_trains_as_without_invariance(tmp_path, words):
    trained = []
    for settings in ({}, {"invariance": "balanced+irmv1", "invariance_warmup_steps": 1}):
        dataset = token_pairs(12, environment=["base"] * 12)
        trainer = verifier_trainer(tmp_path, dataset, words, max_steps=3, per_device_train_batch_size=4, **settings)
        trainer.train()
        trained.append(weights_of(trainer.model))
    assert all(trained[1][name].equal(weight) for name, weight in trained[0].items())


@pytest.mark.parametrize("settings", [{"correction": "forward", "rho0": 0.1, "rho1": 0.1}, {"loss": "cross_entropy"}])
def test_balanced_batches_go_with_any_loss(tmp_path, words, settings):
    names = ["base"] * 9 + ["sneaky"] * 3
    dataset = token_pairs(12, source=names)
    trainer = verifier_trainer(
        tmp_path,
        dataset,
        words,
        invariance="balanced",
        environment_column="source",
        per_device_train_batch_size=4,
        num_train_epochs=2,
        **settings,
    )
    batches = [Counter(names[row] for row in batch["row_index"].tolist()) for batch in trainer.get_train_dataloader()]
    assert batches == [Counter(base=2, sneaky=2)] * 3
    trainer.train()
    assert trainer.state.global_step == 6
    assert len(logged(trainer, "risk/base")) == len(logged(trainer, "risk/sneaky")) == 6
    assert logged(trainer, "penalty") == []


def test_balanced_training_goes_on_from_a_checkpoint_as_if_uninterrupted(tmp_path, words):
    def build(name):
        settings = {"save_strategy": "steps", "save_steps": 4, "max_steps": 6, "per_device_train_batch_size": 4}
        invariance = {"invariance": "balanced+vrex", "invariance_warmup_steps": 4}
        names = ["base"] * 7 + ["sneaky"] * 5  # an epoch is three steps
        return verifier_trainer(tmp_path / name, token_pairs(12, environment=names), words, **settings, **invariance)

    whole = build("whole")
    whole.train()
    resumed = build("resumed")
    resumed.train(resume_from_checkpoint=str(Path(whole.args.output_dir) / "checkpoint-4"))
    for name, weight in weights_of(whole.model).items():
        assert resumed.model.get_parameter(name).equal(weight), name
    assert logged(whole, "penalty_weight") == [0, 0, 0, 0, 10, 10]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"environment_column": "writer"}, "from the column `writer`, which the training set lacks"),
        ({"crowded_environments": "refuse", "per_device_train_batch_size": 1}, "cannot hold 2 environments"),
        ({"invariance": "balanced", "per_device_train_batch_size": 3}, "take an even batch size"),
        ({"correction": "forward", "rho0": 0.1}, "`correction` `forward`. Leave both at their defaults"),
        ({"loss": "cross_entropy"}, "`loss` is `cross_entropy`"),
        ({"gradient_accumulation_steps": 2}, "`gradient_accumulation_steps` is 2. Set it to 1"),
        (
            {"invariance": "balanced", "train_sampling_strategy": "group_by_length"},
            "`train_sampling_strategy` is `group_by_length`. Leave it at `random`",
        ),
        ({"invariance_weight": -1.0}, "`invariance_weight` is -1.0; it must be at least 0"),
        ({"irm_form": "halves"}, "`irm_form` is `halves`"),
        ({"invariance": "irm"}, "Unknown invariance `irm`"),
        ({"invariance": "no.such:penalty"}, "Cannot load the invariance penalty"),
    ],
)
def test_refused(tmp_path, words, settings, message):
    with pytest.raises(ValueError, match=message):
        verifier_trainer(tmp_path, token_pairs(6, environment=NAMES), words, **{"invariance": "irmv1", **settings})


def test_a_stream_and_a_margin_are_refused(tmp_path, words):
    stream = token_pairs(6, environment=NAMES).to_iterable_dataset()
    with pytest.raises(ValueError, match="must know all environments beforehand"):
        verifier_trainer(tmp_path, stream, words, invariance="vrex", max_steps=1)
    with pytest.raises(ValueError, match="column `margin`"):
        verifier_trainer(tmp_path, token_pairs(6, environment=NAMES, margin=[1.0] * 6), words, invariance="vrex")
