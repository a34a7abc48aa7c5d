"""Penalties against references by hand and against autograd, balanced batches, and environments in the training."""

import itertools
import math
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
import torch
import torch.nn.functional as F
from transformers import TrainerCallback

from pvg_hf.core.extensions import ExtensionError
from pvg_hf.trainers.reward.invariance import (
    METHODS,
    BalancedSampler,
    Method,
    check_batch,
    environments_per_batch,
    invariant_risk,
    irm_v1,
    irm_v1_two_halves,
    load_regulariser,
    read_method,
    v_rex,
)
from tests.support.verifier_training import llama, softplus, token_pairs, verifier_trainer
from tests.support.weights import weights_of

LN3, LN4 = math.log(3), math.log(4)  # softplus(-ln 4) = ln 5/4, sigmoid(-ln 4) = 1/5; sigmoid(-ln 3) = 1/4
MARGINS = torch.tensor([LN4, 0.0, LN3, -LN3, LN4, LN3], dtype=torch.float64)
ENVIRONMENTS = torch.tensor([0, 0, 7, 7, 7, 7])
# risks: ln 5/4 and ln 2 in environment 0; ln 4/3, ln 4, ln 5/4 and ln 4/3 in environment 7
RISKS = [math.log(5 / 2) / 2, math.log(4 / 3 * 4 * 5 / 4 * 4 / 3) / 4]
# -d sigmoid(-d): -(ln 4)/5 and 0; -(ln 3)/4, +3/4 ln 3, -(ln 4)/5 and -(ln 3)/4
DERIVATIVES = [[-LN4 / 5, 0.0], [-LN3 / 4, 3 * LN3 / 4, -LN4 / 5, -LN3 / 4]]


def names(regulariser):
    return regulariser.__name__


def test_v_rex_by_hand():
    mean = sum(RISKS) / 2
    expected = sum((risk - mean) ** 2 for risk in RISKS) / 2
    assert v_rex(MARGINS, ENVIRONMENTS).item() == pytest.approx(expected)


def test_irm_v1_by_hand():
    means = [sum(values) / len(values) for values in DERIVATIVES]
    expected = sum(mean**2 for mean in means) / 2
    assert irm_v1(MARGINS, ENVIRONMENTS).item() == pytest.approx(expected)


def test_irm_v1_by_two_halves_by_hand():
    (a, b), (c, d, e, f) = DERIVATIVES
    expected = (a * b + (c + e) / 2 * (d + f) / 2) / 2
    assert expected < 0
    assert irm_v1_two_halves(MARGINS, ENVIRONMENTS).item() == pytest.approx(expected)


def test_a_single_pair_has_no_halves():
    margins, environments = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 1])
    alone = irm_v1_two_halves(margins[:2], environments[:2])
    assert irm_v1_two_halves(margins, environments).equal(alone)
    assert irm_v1_two_halves(margins, torch.tensor([0, 1, 2])).item() == 0


def scale_derivative_by_autograd(margins):
    """d/dw of the mean Bradley-Terry loss of the scores times w, as IRMv1 is defined."""
    scale = torch.ones((), dtype=margins.dtype, requires_grad=True)
    risk = F.softplus(-scale * margins).mean()
    return torch.autograd.grad(risk, scale, create_graph=True)[0]


def irm_v1_by_autograd(margins, environments):
    derivatives = [scale_derivative_by_autograd(margins[environments == number]) for number in (0, 7)]
    return (derivatives[0] ** 2 + derivatives[1] ** 2) / 2


def two_halves_by_autograd(margins, environments):
    parts = [margins[environments == number] for number in (0, 7)]
    products = [scale_derivative_by_autograd(p[::2]) * scale_derivative_by_autograd(p[1::2]) for p in parts]
    return (products[0] + products[1]) / 2


@pytest.mark.parametrize(
    ("penalty", "reference"), [(irm_v1, irm_v1_by_autograd), (irm_v1_two_halves, two_halves_by_autograd)], ids=names
)
def test_irm_v1_is_that_of_double_backward(penalty, reference):
    gradients = []
    for function in (penalty, reference):
        margins = MARGINS.clone().requires_grad_()
        value = function(margins, ENVIRONMENTS)
        (gradient,) = torch.autograd.grad(value, margins)
        gradients.append((value.detach(), gradient))
    torch.testing.assert_close(gradients[0], gradients[1])
    assert gradients[0][1].abs().max() > 1e-2


@pytest.mark.parametrize("penalty", [v_rex, irm_v1, irm_v1_two_halves], ids=names)
def test_gradients_of_penalties(penalty):
    margins = torch.randn(9, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    environments = torch.tensor([0, 1, 2] * 3)
    assert torch.autograd.gradcheck(lambda margins: penalty(margins, environments), (margins,))


def test_two_halves_are_unbiased_and_squares_are_not():
    """
    All 4^4 batches of four pairs of an environment whose margins are one of four values, each as likely as any other.
    """
    values = torch.tensor([-1.0, 0.5, 2.0, 3.0], dtype=torch.float64)
    truth = scale_derivative_by_autograd(values).item() ** 2
    environments = torch.zeros(4, dtype=torch.int64)
    batches = [values[list(batch)] for batch in itertools.product(range(4), repeat=4)]
    means = [sum(f(batch, environments).item() for batch in batches) / 256 for f in (irm_v1, irm_v1_two_halves)]
    # The square of a mean of four is too high by a quarter of the variance of one.
    derivatives = -values * torch.sigmoid(-values)
    assert means[0] == pytest.approx(truth + derivatives.var(correction=0).item() / 4)
    assert means[1] == pytest.approx(truth)


@pytest.mark.parametrize("weight", [0.0, 0.5, 20.0])
def test_risk_is_the_mean_of_environments_and_not_of_pairs(weight):
    risk = invariant_risk(MARGINS, ENVIRONMENTS, v_rex, weight)
    penalty = v_rex(MARGINS, ENVIRONMENTS).item()
    assert risk.risks == pytest.approx({0: RISKS[0], 7: RISKS[1]})
    assert risk.penalty.item() == pytest.approx(penalty)
    assert risk.loss.item() == pytest.approx(sum(RISKS) / 2 + weight * penalty)


@pytest.mark.parametrize("penalty", [irm_v1, irm_v1_two_halves, v_rex], ids=names)
def test_a_single_environment_has_no_penalty(penalty):
    risk = invariant_risk(MARGINS, torch.zeros(6, dtype=torch.int64), penalty, 10.0)
    assert risk.penalty.item() == 0
    assert risk.loss.item() == pytest.approx(F.softplus(-MARGINS).mean().item())


def own_penalty(margins, environments):
    return margins.square().mean()


def no_scalar(margins, environments):
    return margins


def test_a_custom_penalty_is_used():
    own = load_regulariser("tests.trainers.reward.test_invariance:own_penalty")
    assert own(MARGINS, ENVIRONMENTS).equal(MARGINS.square().mean())
    with pytest.raises(ExtensionError, match="scalar tensor"):
        invariant_risk(MARGINS, ENVIRONMENTS, no_scalar, 1.0)
    with pytest.raises(ValueError, match="LN3` is a float"):
        load_regulariser("tests.trainers.reward.test_invariance:LN3")


def test_methods_are_read_from_their_names():
    assert [read_method(name) for name in METHODS] == [
        Method(False, None),
        Method(True, None),
        Method(False, "vrex"),
        Method(False, "irmv1"),
        Method(True, "vrex"),
        Method(True, "irmv1"),
    ]
    assert read_method("own:penalty") == Method(False, "own:penalty")
    assert read_method("balanced+own:penalty") == Method(True, "own:penalty")


@pytest.mark.parametrize("name", ["irm", "balanced+", "balanced+none", "vrex+balanced", "balanced+balanced"])
def test_unknown_methods_are_refused(name):
    with pytest.raises(ValueError, match="Unknown invariance"):
        read_method(name)


# A world of two environments. A pair's difference in the invariant feature points to the correct solution in three
# quarters of all pairs, everywhere; that in the spurious feature in nine tenths, and in eight tenths. Where it points
# to the incorrect one, as in a later round, a verifier that has learned it is fooled. 40 pairs each have these shares
# exactly.
AGREEMENTS = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
COUNTS = {0: [27, 3, 9, 1], 1: [24, 6, 8, 2]}  # 40 * (.75 * .9, .75 * .1, .25 * .9, .25 * .1), then with .8
INVARIANT = LN3 / 2  # the best weight of the invariant feature alone: sigmoid(2 w) = 3/4


def learn(penalty, weight):
    """Train a linear verifier on all data, and then with the penalty; returns the weights of its two features."""
    features = torch.cat([AGREEMENTS.repeat_interleave(torch.tensor(counts), dim=0) for counts in COUNTS.values()])
    environments = torch.tensor([0] * 40 + [1] * 40)
    weights = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    for now in (0.0, weight):
        optimizer = torch.optim.LBFGS([weights], max_iter=300, tolerance_change=1e-12, line_search_fn="strong_wolfe")

        def loss(now=now, optimizer=optimizer):
            optimizer.zero_grad()
            value = invariant_risk(2 * features @ weights, environments, penalty, now).loss
            value.backward()
            return value

        optimizer.step(loss)
    return weights.tolist()


def test_plain_training_takes_the_spurious_feature():
    invariant, spurious = learn(v_rex, 0.0)
    assert spurious == pytest.approx(math.log(0.85 / 0.15) / 2, abs=1e-4)  # .85 of all pairs agree with it
    assert spurious > invariant > 0  # so that it decides wherever the two disagree


@pytest.mark.parametrize(("penalty", "weight"), [(v_rex, 1e4), (irm_v1, 1e4)], ids=["v_rex", "irm_v1"])
def test_penalties_find_the_invariant_feature(penalty, weight):
    invariant, spurious = learn(penalty, weight)
    assert invariant == pytest.approx(INVARIANT, abs=0.02)
    assert abs(spurious) < 0.01


def batches(sampler, size):
    order = list(sampler)
    assert len(order) == len(sampler)
    return [order[start : start + size] for start in range(0, len(order), size)]


def test_every_batch_holds_equal_numbers_of_each_environment():
    environments = ["base"] * 10 + ["b"] * 3 + ["c"] * 7
    found = batches(BalancedSampler(environments, 6, seed=0), 6)
    assert len(found) == 4  # 20 rows
    for batch in found:
        assert Counter(environments[row] for row in batch) == {"base": 2, "b": 2, "c": 2}
    # eight of the small environment's three rows: all of them before one comes again
    small = [row for batch in found for row in batch if environments[row] == "b"]
    assert sorted(small[:3]) == sorted(small[3:6]) == [10, 11, 12]
    large = [row for batch in found for row in batch if environments[row] == "base"]
    assert len(set(large)) == 8


def test_environments_take_turns_if_a_batch_cannot_hold_all():
    environments = ["a", "b", "c", "d", "e"] * 8
    found = batches(BalancedSampler(environments, 4, seed=0), 4)
    seen = Counter()
    for batch in found:
        counts = Counter(environments[row] for row in batch)
        assert len(counts) == 4
        seen.update(counts.keys())
    assert set(seen.values()) == {8}  # of ten batches, each environment is in four of five


def test_each_epoch_has_a_different_order():
    sampler = BalancedSampler(["a", "b"] * 10, 4, seed=0)
    first, again = list(sampler), list(sampler)
    sampler.set_epoch(1)
    assert first == again != list(sampler)
    assert list(BalancedSampler(["a", "b"] * 10, 4, seed=1)) != first


@pytest.mark.parametrize(
    ("num_environments", "batch_size", "expected"),
    [(1, 8, 1), (3, 8, 2), (5, 32, 4), (5, 10, 5), (9, 4, 4), (3, 7, 1)],
)
def test_environments_per_batch(num_environments, batch_size, expected):
    assert environments_per_batch(num_environments, batch_size) == expected


@pytest.mark.parametrize(
    ("num_environments", "batch_size", "is_balanced", "crowded", "message"),
    [
        (3, 8, True, "refuse", "cannot hold 3 environments evenly. .* multiple of 3"),
        (9, 8, False, "refuse", "cannot hold 9 environments. .* multiple of 9"),
        (3, 7, True, "cycle", "even batch size"),
        (3, 8, True, "cycle", None),
        (3, 7, False, "refuse", None),
        (1, 7, True, "refuse", None),
    ],
)
def test_too_small_batches_are_refused(num_environments, batch_size, is_balanced, crowded, message):
    def check():
        check_batch(num_environments, batch_size, is_balanced=is_balanced, crowded=crowded)

    if message is None:
        check()
    else:
        with pytest.raises(ValueError, match=message):
            check()


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


def test_noise_swaps_pairs_and_excludes_ties_from_the_risks(tmp_path, words):
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
    """Records the number of steps in the optimiser's moments after each step."""

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
def test_balanced_batches_work_with_any_loss(tmp_path, words, settings):
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


def test_balanced_training_resumed_equals_uninterrupted_training(tmp_path, words):
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
        ({"environment_column": "writer"}, "column `writer`, .*lacks"),
        ({"crowded_environments": "refuse", "per_device_train_batch_size": 1}, "cannot hold 2 environments"),
        ({"invariance": "balanced", "per_device_train_batch_size": 3}, "even batch size"),
        ({"correction": "forward", "rho0": 0.1}, "`correction` is `forward`"),
        ({"loss": "cross_entropy"}, "`loss` is `cross_entropy`"),
        ({"gradient_accumulation_steps": 2}, "`gradient_accumulation_steps` is 2"),
        (
            {"invariance": "balanced", "train_sampling_strategy": "group_by_length"},
            "`train_sampling_strategy` is `group_by_length`. .*`random`",
        ),
        ({"invariance_weight": -1.0}, "`invariance_weight` is -1.0"),
        ({"irm_form": "halves"}, "`irm_form` is `halves`"),
        ({"invariance": "irm"}, "Unknown invariance `irm`"),
        ({"invariance": "no.such:penalty"}, "Cannot load the invariance penalty"),
    ],
)
def test_settings_that_invariance_cannot_use_are_errors(tmp_path, words, settings, message):
    with pytest.raises(ValueError, match=message):
        verifier_trainer(tmp_path, token_pairs(6, environment=NAMES), words, **{"invariance": "irmv1", **settings})


def test_a_stream_and_a_margin_are_refused(tmp_path, words):
    stream = token_pairs(6, environment=NAMES).to_iterable_dataset()
    with pytest.raises(ValueError, match=r"`streaming=False`.*`invariance=none`"):
        verifier_trainer(tmp_path, stream, words, invariance="vrex", max_steps=1)
    with pytest.raises(ValueError, match="column `margin`"):
        verifier_trainer(tmp_path, token_pairs(6, environment=NAMES, margin=[1.0] * 6), words, invariance="vrex")
