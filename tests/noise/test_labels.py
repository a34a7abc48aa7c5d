from itertools import pairwise

import numpy as np
import pytest
import torch

from pvg_hf.core.seeding import derive_uniform
from pvg_hf.noise import effective_label, flip_labels, flip_labels_by_uniforms

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float32, torch.float64]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_label_flips_where_its_draw_is_below_the_rate_of_its_true_class(dtype):
    labels = torch.tensor([0, 0, 0, 1, 1, 1]).to(dtype)
    uniforms = torch.tensor([0.0, 0.1, 0.3, 0.1, 0.3, 0.4], dtype=torch.float64)
    noisy = flip_labels_by_uniforms(labels, uniforms, (0.1, 0.4))
    assert noisy.dtype == dtype
    # rho0 = .1 flips 0.0 only (strictly below); rho1 = .4 flips .1 and .3
    assert noisy.tolist() == [1, 0, 0, 0, 0, 1]
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_a_single_rate_sets_both_rates():
    labels = torch.randint(2, (500,), generator=seeded())
    assert torch.equal(
        flip_labels(labels, 0.3, generator=seeded(1)), flip_labels(labels, (0.3, 0.3), generator=seeded(1))
    )


def test_flip_counts_match_the_rates():
    # n = 20,000 per class: five standard deviations of a share are at most 5 * sqrt(.21 / 20000) = .0162
    labels = torch.tensor([0, 1]).repeat(20_000)
    noisy = flip_labels(labels, (0.1, 0.3), generator=seeded())
    assert noisy[labels == 0].double().mean().item() == pytest.approx(0.1, abs=0.0162)
    assert noisy[labels == 1].double().mean().item() == pytest.approx(0.7, abs=0.0162)


def test_a_higher_rate_only_adds_flips():
    labels = torch.randint(2, (1000,), generator=seeded())
    rates = [0.0, 0.05, (0.05, 0.2), 0.2, (0.45, 0.2), 0.45]
    flipped = [flip_labels(labels, rate, generator=seeded(7)) != labels for rate in rates]
    counts = [int(flips.sum()) for flips in flipped]
    assert counts[0] == 0
    assert counts == sorted(set(counts))
    for fewer, more in pairwise(flipped):
        assert not (fewer & ~more).any()


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_each_label_takes_one_draw_whatever_the_rate(rate):
    generator, reference = seeded(3), seeded(3)
    flip_labels(torch.zeros(4, 25), rate, generator=generator)
    torch.rand(100, generator=reference, dtype=torch.float64)
    assert torch.equal(generator.get_state(), reference.get_state())


def test_derived_draws_do_not_depend_on_order():
    texts = [f"solution {index}" for index in range(200)]

    def flip(texts):
        uniforms = torch.tensor([derive_uniform(0, "problem", text) for text in texts], dtype=torch.float64)
        return flip_labels_by_uniforms(torch.ones(len(texts), dtype=torch.bool), uniforms, 0.3).tolist()

    noisy = flip(texts)
    assert flip(texts[::-1]) == noisy[::-1]
    assert 0 < noisy.count(False) < 200


def test_no_global_generator_is_read_or_written():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()
    first = flip_labels(torch.ones(100), 0.4, generator=seeded())
    effective_label(torch.ones(100), 0.1)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert all(np.array_equal(now, then) for now, then in zip(np.random.get_state(), numpy_state))
    torch.rand(1)  # a global generator in another state changes nothing
    assert torch.equal(flip_labels(torch.ones(100), 0.4, generator=seeded()), first)


def test_effective_label_is_the_mean_of_a_flipped_label():
    # .6 * y + .2
    assert effective_label(torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64), 0.2).tolist() == pytest.approx(
        [0.2, 0.8, 0.5]
    )
    assert effective_label(torch.tensor([0.0, 1.0]), 0.0).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.bool, torch.float32), (torch.int64, torch.float32), (torch.float64, torch.float64)],
)
def test_effective_label_has_a_floating_point_type(dtype, expected):
    assert effective_label(torch.tensor([0, 1]).to(dtype), 0.25).dtype == expected


@pytest.mark.parametrize("epsilon", [-0.1, 0.5, 1.0, float("nan")])
def test_effective_label_rejects_rates_outside_its_range(epsilon):
    with pytest.raises(ValueError, match=f"`epsilon` is {epsilon}"):
        effective_label(torch.tensor([0, 1]), epsilon)


def test_effective_label_rejects_labels_outside_the_unit_interval():
    with pytest.raises(ValueError, match=r"in \[0, 1\]; 1 are not, e.g. 2"):
        effective_label(torch.tensor([0, 1, 2]), 0.1)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (0.5, "must be below 1"),
        (-0.1, "`rho0` is -0.1"),
        ((0.0, 1.0), "`rho1` is 1.0"),
        ((0.6, 0.4), "must be below 1"),
        ((0.1, 0.1, 0.1), "not 3 rates"),
    ],
)
def test_flip_labels_rejects_rates_outside_their_range(rates, message):
    with pytest.raises(ValueError, match=message):
        flip_labels(torch.tensor([0, 1]), rates, generator=seeded())


@pytest.mark.parametrize("label", [0.5, -1.0, float("nan")])
def test_flip_labels_rejects_labels_that_are_neither_0_nor_1(label):
    with pytest.raises(ValueError, match=f"0 or 1; 1 are not, e.g. {label}"):
        flip_labels(torch.tensor([0.0, label]), 0.1, generator=seeded())


def test_draws_must_match_the_labels():
    with pytest.raises(ValueError, match=r"shape \(2,\) and `labels` \(3,\)"):
        flip_labels_by_uniforms(torch.zeros(3), torch.zeros(2), 0.1)
    with pytest.raises(ValueError, match=r"1 values outside \[0, 1\), e.g. 1.0"):
        flip_labels_by_uniforms(torch.zeros(2), torch.tensor([0.5, 1.0]), 0.1)
