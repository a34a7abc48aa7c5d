import itertools
import math

import pytest
import torch

from pvg_hf.losses import bradley_terry, exact_pairwise, pointwise_cross_entropy

LN4 = math.log(4)  # sigmoid(ln 4) = 4/5, so softplus(-ln 4) = ln 5/4 and softplus(ln 4) = ln 5
LN5_4, LN5 = math.log(5 / 4), math.log(5)
TINY_CENTER = 1e-300  # lets the backward correction through and changes no value in float64

PAIR_CORRECTIONS = ["none", "smoothing", "forward", "backward"]
LABEL_CORRECTIONS = ["none", "forward", "backward"]


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def pair_loss(margin, **settings):
    """Loss of one pair with this margin, whose scores are plus and minus half of it."""
    margins = double(margin)
    return bradley_terry(margins / 2, -margins / 2, center=TINY_CENTER, **settings).item()


def label_loss(score, label, **settings):
    return pointwise_cross_entropy(double(score), double(label), center=TINY_CENTER, **settings).item()


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        ("none", LN5_4),
        ("smoothing", 0.8 * LN5_4 + 0.2 * LN5),
        ("forward", -math.log(0.2 + 0.6 * 0.8)),
        ("backward", (0.8 * LN5_4 - 0.2 * LN5) / 0.6),
    ],
)
def test_pair_loss_at_margin_ln4_and_flip_rate_one_fifth(correction, expected):
    assert pair_loss(LN4, flip_rate=0.2, correction=correction) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("correction", PAIR_CORRECTIONS)
@pytest.mark.parametrize("margin", [-7.0, 0.0, 3.0])
def test_every_pair_correction_is_plain_bradley_terry_at_flip_rate_zero(correction, margin):
    assert pair_loss(margin, correction=correction) == pytest.approx(math.log1p(math.exp(-margin)), abs=1e-14)


def test_bradley_terry_is_the_mean_over_pairs():
    # Margins ln 4 and 0: (ln 5/4 + ln 2) / 2 = (ln 5/2) / 2
    loss = bradley_terry(double(LN4 + 1, -3), double(1, -3))
    assert loss.shape == ()
    assert loss.item() == pytest.approx(math.log(2.5) / 2)


def test_centring_is_the_mean_square_of_single_scores_and_not_of_pair_sums():
    chosen, rejected = double(3, 1), double(1, -2)
    plain = bradley_terry(chosen, rejected)
    centred = bradley_terry(chosen, rejected, center=0.1)
    # (9 + 1 + 1 + 4) / 4 = 3.75; the mean square of the pair sums would be (16 + 1) / 2 = 8.5
    assert (centred - plain).item() == pytest.approx(0.1 * 3.75)


def test_weights_leave_out_pairs_but_not_from_the_centring():
    chosen, rejected = double(LN4, 0, 5), double(0, 0, 9)
    loss = bradley_terry(chosen, rejected, weights=double(1, 0.5, 0))
    assert loss.item() == pytest.approx((LN5_4 + 0.5 * math.log(2)) / 1.5)
    centred = bradley_terry(chosen, rejected, weights=double(1, 0.5, 0), center=0.1)
    assert (centred - loss).item() == pytest.approx(0.1 * (LN4**2 + 25 + 81) / 6)


def test_a_batch_of_ties_adds_nothing_and_has_a_gradient_of_zero():
    chosen = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = bradley_terry(chosen, torch.zeros(2), weights=torch.zeros(2))
    loss.backward()
    assert loss.item() == 0
    assert chosen.grad.tolist() == [0, 0]


@pytest.mark.parametrize("margin", [-800.0, -30.0, -2.0, 0.0, 2.0, 30.0, 800.0])
@pytest.mark.parametrize("flip_rate", [0.0, 0.01, 0.2, 0.49])
def test_backward_is_unbiased_when_strict_pairs_are_flipped(margin, flip_rate):
    # A pair comes reversed with probability e; the expectation over that flip is the clean loss.
    right = pair_loss(margin, flip_rate=flip_rate, correction="backward")
    reversed_ = pair_loss(-margin, flip_rate=flip_rate, correction="backward")
    expectation = (1 - flip_rate) * right + flip_rate * reversed_
    assert expectation == pytest.approx(pair_loss(margin), rel=1e-10, abs=1e-10)


def test_backward_is_unbounded_below_and_forward_is_bounded():
    # d = 1000, e = 1/4: (0 - 1000/4) / (1/2) = -500; forward -> -ln(3/4) and, at d = -1000, -ln(1/4)
    assert pair_loss(1000, flip_rate=0.25, correction="backward") == pytest.approx(-500)
    assert pair_loss(1000, flip_rate=0.25, correction="forward") == pytest.approx(math.log(4 / 3))
    assert pair_loss(-1000, flip_rate=0.25, correction="forward") == pytest.approx(math.log(4))


def slope(margin, **settings):
    margins = double(margin).requires_grad_()
    (gradient,) = torch.autograd.grad(bradley_terry(margins, torch.zeros_like(margins), **settings), margins)
    return gradient.item()


def test_smoothing_is_least_where_sigmoid_of_the_margin_is_one_minus_the_flip_rate():
    assert slope(LN4, flip_rate=0.2, correction="smoothing") == pytest.approx(0, abs=1e-15)
    assert (
        slope(LN4 - 1, flip_rate=0.2, correction="smoothing")
        < 0
        < slope(LN4 + 1, flip_rate=0.2, correction="smoothing")
    )


def test_forward_is_least_at_the_clean_margin_under_flipped_pairs():
    # Truly preferred with probability 4/5, labelled so with probability q = .2 + .6 * .8 = .68
    settings = {"flip_rate": 0.2, "correction": "forward"}
    expected_slope = 0.68 * slope(LN4, **settings) - 0.32 * slope(-LN4, **settings)
    assert expected_slope == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("margin", [-30.0, -5.0, -0.1, 0.0, 0.1, 5.0, 30.0])
@pytest.mark.parametrize("flip_rate", [0.0, 0.001, 0.3])
def test_forward_equals_its_naive_form(margin, flip_rate):
    naive = -math.log(flip_rate + (1 - 2 * flip_rate) / (1 + math.exp(-margin)))
    assert pair_loss(margin, flip_rate=flip_rate, correction="forward") == pytest.approx(naive, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("correction", PAIR_CORRECTIONS)
@pytest.mark.parametrize("flip_rate", [0.0, 0.1])
def test_pair_losses_stay_finite_in_float32_at_huge_margins(correction, flip_rate):
    chosen = torch.tensor([2e4, -2e4, 0.0], requires_grad=True)
    loss = bradley_terry(chosen, -chosen.detach(), flip_rate=flip_rate, correction=correction, center=1e-6)
    loss.backward()
    assert loss.isfinite()
    assert chosen.grad.isfinite().all()


@pytest.mark.parametrize("correction", PAIR_CORRECTIONS)
@pytest.mark.parametrize("flip_rate", [0.0, 0.15])
def test_gradients_of_pair_losses(correction, flip_rate):
    generator = torch.Generator().manual_seed(0)
    scores = [torch.randn(5, dtype=torch.float64, generator=generator).mul(3).requires_grad_() for _ in range(2)]
    weights = double(1, 0, 0.5, 1, 1)

    def loss(chosen, rejected):
        settings = {"flip_rate": flip_rate, "correction": correction, "center": 0.05, "weights": weights}
        return bradley_terry(chosen, rejected, **settings)

    assert torch.autograd.gradcheck(loss, scores)
    assert torch.autograd.gradgradcheck(loss, scores)


@pytest.mark.parametrize(
    ("correction", "if_one", "if_zero"),
    [
        ("none", LN5_4, LN5),
        ("forward", -math.log(0.8 * 0.8 + 0.1 * 0.2), -math.log(0.2 * 0.8 + 0.9 * 0.2)),
        ("backward", (0.9 * LN5_4 - 0.2 * LN5) / 0.7, (0.8 * LN5 - 0.1 * LN5_4) / 0.7),
    ],
)
def test_label_loss_at_score_ln4_with_rates_one_and_two_tenths(correction, if_one, if_zero):
    settings = {"rho0": 0.1, "rho1": 0.2, "correction": correction}
    assert label_loss(LN4, 1, **settings) == pytest.approx(if_one, abs=1e-14)
    assert label_loss(LN4, 0, **settings) == pytest.approx(if_zero, abs=1e-14)
    assert label_loss(LN4, 0.25, **settings) == pytest.approx(0.25 * if_one + 0.75 * if_zero, abs=1e-14)


@pytest.mark.parametrize("score", [-700.0, -20.0, 0.0, 1.5, 20.0, 700.0])
@pytest.mark.parametrize(("rho0", "rho1"), [(0.0, 0.0), (0.1, 0.3), (0.45, 0.0), (0.0, 0.6)])
def test_backward_label_loss_is_unbiased(score, rho0, rho1):
    settings = {"rho0": rho0, "rho1": rho1, "correction": "backward"}
    told_one, told_zero = label_loss(score, 1, **settings), label_loss(score, 0, **settings)
    if_correct, if_incorrect = label_loss(score, 1), label_loss(score, 0)
    assert (1 - rho1) * told_one + rho1 * told_zero == pytest.approx(if_correct, rel=1e-10, abs=1e-10)
    assert (1 - rho0) * told_zero + rho0 * told_one == pytest.approx(if_incorrect, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("score", [-30.0, -1.0, 0.0, 4.0, 30.0])
@pytest.mark.parametrize("label", [0.0, 0.3, 1.0])
def test_forward_label_loss_equals_its_naive_form(score, label):
    p = 1 / (1 + math.exp(-score))
    noisy = 0.8 * p + 0.1 * (1 - p)
    naive = -label * math.log(noisy) - (1 - label) * math.log(1 - noisy)
    assert label_loss(score, label, rho0=0.1, rho1=0.2, correction="forward") == pytest.approx(naive, rel=1e-10)


def test_forward_label_loss_saturates_at_huge_scores():
    # sigmoid -> 1: P(told 1) -> 1 - rho1 = 4/5; sigmoid -> 0: P(told 1) -> rho0 = 1/10
    settings = {"rho0": 0.1, "rho1": 0.2, "correction": "forward"}
    assert label_loss(1000, 0, **settings) == pytest.approx(math.log(5))
    assert label_loss(-1000, 1, **settings) == pytest.approx(math.log(10))
    assert label_loss(-1000, 1, correction="forward") == pytest.approx(1000)


def test_cross_entropy_is_the_mean_over_solutions_plus_centring():
    scores = double(LN4, 0)
    loss = pointwise_cross_entropy(scores, double(0, 1), center=0.1)
    assert loss.item() == pytest.approx((LN5 + math.log(2)) / 2 + 0.1 * LN4**2 / 2)


def test_cross_entropy_takes_bool_labels():
    scores = double(LN4, LN4)
    assert pointwise_cross_entropy(scores, torch.tensor([True, False])).item() == pytest.approx((LN5_4 + LN5) / 2)


@pytest.mark.parametrize("correction", LABEL_CORRECTIONS)
@pytest.mark.parametrize(("rho0", "rho1"), [(0.0, 0.0), (0.1, 0.3)])
def test_gradients_of_label_losses(correction, rho0, rho1):
    scores = double(-4, -0.5, 0.7, 3).requires_grad_()
    settings = {"rho0": rho0, "rho1": rho1, "correction": correction, "center": 0.05}

    def loss(scores):
        return pointwise_cross_entropy(scores, double(0, 1, 0.4, 1), **settings)

    assert torch.autograd.gradcheck(loss, scores)
    assert torch.autograd.gradgradcheck(loss, scores)


def test_half_precision_is_lifted_to_float32():
    scores = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    assert bradley_terry(scores, scores).dtype == torch.float32
    assert pointwise_cross_entropy(scores, torch.tensor([0, 1])).dtype == torch.float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"correction": "backward", "flip_rate": 0.1}, "unbounded below.*`center` is 0"),
        ({"flip_rate": 0.5}, "`flip_rate` is 0.5.*\\[0, 0.5\\)"),
        ({"flip_rate": -0.1}, "`flip_rate` is -0.1"),
        ({"flip_rate": math.nan}, "`flip_rate` is nan"),
        ({"center": -1.0}, "`center` is -1.0"),
        ({"correction": "foward"}, "correction `foward`.* `forward`"),
        ({"correction": "zebra"}, "correction `zebra`.* `none`, `smoothing`, `forward`, `backward`"),
        ({"weights": torch.tensor([0.5])}, "`weights` \\(1,\\)"),
        ({"weights": torch.tensor([0.5, 1.5])}, "`weights` .*\\[0, 1\\]; .*e.g. 1.5"),
    ],
)
def test_bradley_terry_rejects_invalid_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(torch.ones(2), torch.zeros(2), **settings)


def test_bradley_terry_refuses_shapes_that_would_broadcast():
    with pytest.raises(ValueError, match=r"`chosen` \(2,\), `rejected` \(2, 1\)"):
        bradley_terry(torch.ones(2), torch.zeros(2, 1))


def test_losses_refuse_an_empty_batch():
    empty = torch.empty(0)
    with pytest.raises(ValueError, match="`chosen` and `rejected` are empty"):
        bradley_terry(empty, empty)
    with pytest.raises(ValueError, match="`scores` and `labels` are empty"):
        pointwise_cross_entropy(empty, empty)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"correction": "backward", "rho0": 0.1}, "unbounded below"),
        ({"rho0": 0.5, "rho1": 0.5}, "must be below 1"),
        ({"rho0": 1.0}, "`rho0` is 1.0"),
        ({"rho1": -0.1}, "`rho1` is -0.1"),
        ({"correction": "smoothing"}, "Unknown correction `smoothing`"),
        ({"center": -1.0}, "`center` is -1.0"),
    ],
)
def test_cross_entropy_rejects_invalid_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        pointwise_cross_entropy(torch.zeros(2), torch.ones(2), **settings)


@pytest.mark.parametrize("label", [-0.1, 1.1, math.nan])
def test_cross_entropy_refuses_labels_outside_the_unit_interval(label):
    with pytest.raises(ValueError, match="`labels` must lie in"):
        pointwise_cross_entropy(torch.zeros(2), torch.tensor([0.0, label]))


def exact_loss(first, second, labels, *, rho0=0.1, rho1=0.2, center=TINY_CENTER):
    return exact_pairwise(double(*first), double(*second), double(*labels), rho0=rho0, rho1=rho1, center=center).item()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        # u = (y - .1) / .7 is 9/7 for a 1 and -1/7 for a 0; V_i - V_j = ln 4
        ([1, 0], (9 * 8 * LN5_4 + 1 * 2 * LN5) / 49),
        ([0, 1], (1 * 2 * LN5_4 + 9 * 8 * LN5) / 49),
        ([1, 1], (-9 * 2 * LN5_4 - 9 * 2 * LN5) / 49),
        ([0, 0], (-1 * 8 * LN5_4 - 1 * 8 * LN5) / 49),
    ],
)
def test_exact_loss_of_a_pair_at_margin_ln4(labels, expected):
    assert exact_loss([LN4], [0.0], [labels]) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.1, 0.2), (0.45, 0.45), (0.0, 0.7)])
@pytest.mark.parametrize(("truths", "clean"), [([1, 0], LN5_4), ([0, 1], LN5), ([1, 1], 0.0), ([0, 0], 0.0)])
def test_exact_loss_is_unbiased_when_labels_flip_independently(truths, clean, rates):
    mean = 0.0
    for labels in itertools.product((0, 1), repeat=2):
        prob = math.prod(
            rates[1 - label] if label != truth else 1 - rates[truth] for label, truth in zip(labels, truths)
        )
        mean += prob * exact_loss([LN4], [0.0], [labels], rho0=rates[0], rho1=rates[1])
    assert mean == pytest.approx(clean, abs=1e-12)


def test_exact_loss_is_biased_when_the_labels_of_a_pair_flip_together():
    together = 0.8 * exact_loss([LN4], [0.0], [[1, 0]], rho0=0.2, rho1=0.2)
    together += 0.2 * exact_loss([LN4], [0.0], [[0, 1]], rho0=0.2, rho1=0.2)
    assert abs(together - LN5_4) > 0.05


def test_exact_loss_without_noise_is_bradley_terry_over_all_pairs():
    first, second, labels = [LN4, -1.0, 2.0], [0.0, 1.0, 5.0], [[1, 0], [0, 1], [1, 1]]
    strict = bradley_terry(double(LN4, 1.0), double(0.0, -1.0)).item()
    centring = 0.1 * (LN4**2 + 1 + 4 + 0 + 1 + 25) / 6
    loss = exact_loss(first, second, labels, rho0=0.0, rho1=0.0, center=0.1)
    assert loss == pytest.approx(2 / 3 * strict + centring)


def test_gradient_of_the_exact_loss():
    scores = double(0.3, -1.2, 4.0).requires_grad_(), double(1.0, -1.0, 0.0).requires_grad_()
    labels = double([1, 0], [0, 0], [1, 1])
    assert torch.autograd.gradcheck(
        lambda first, second: exact_pairwise(first, second, labels, rho0=0.1, rho1=0.3, center=0.01), scores
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"center": 0.0}, "The exact correction is unbounded below"),
        ({"rho0": 0.5, "rho1": 0.5}, r"0.5 \+ 0.5 = 1.0; "),
        ({"rho0": -0.1}, "`rho0` is -0.1"),
        ({"labels": [1, 0]}, r"`labels` has shape \(2,\); for 1 pairs it is \(1, 2\)"),
        ({"labels": [[1, 2]]}, r"`labels` .*\[0, 1\]; .*e.g. 2.0"),
    ],
)
def test_exact_loss_rejects_invalid_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        exact_loss([1.0], [0.0], **{"labels": [[1, 0]], **settings})
