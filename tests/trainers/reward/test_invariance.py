"""Penalties against references written by hand, against autograd, and on a world with a feature that misleads."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from pvg_hf.trainers.reward.invariance import (
    METHODS,
    Method,
    invariant_risk,
    irm_v1,
    irm_v1_two_halves,
    load_regulariser,
    read_method,
    v_rex,
)

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
    """All 4^4 batches of four pairs of an environment whose margins are one of four values, each as likely as any other."""
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


def test_a_penalty_of_ones_own():
    own = load_regulariser("test_invariance:own_penalty")
    assert own(MARGINS, ENVIRONMENTS).equal(MARGINS.square().mean())
    with pytest.raises(ValueError, match="must be a scalar tensor"):
        invariant_risk(MARGINS, ENVIRONMENTS, no_scalar, 1.0)
    with pytest.raises(ValueError, match="is a float; it must be a function"):
        load_regulariser("test_invariance:LN3")


def test_methods():
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
# quarters of all pairs, everywhere; that in the spurious feature in nine tenths, and in eight tenths. Where it points to
# the incorrect one, as in a round to come, whoever has learned it is fooled. 40 pairs each have these shares exactly.
AGREEMENTS = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
COUNTS = {0: [27, 3, 9, 1], 1: [24, 6, 8, 2]}  # 40 * (.75 * .9, .75 * .1, .25 * .9, .25 * .1), then with .8
INVARIANT = LN3 / 2  # the best weight of the invariant feature alone: sigmoid(2 w) = 3/4


def learn(penalty, weight):
    """The two features' weights in a linear verifier: trained on the whole world, and then on with the penalty."""
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
