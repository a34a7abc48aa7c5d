import pytest
import torch

from pvg_hf.seeding import derive_uniform
from pvg_hf.trainers.pair_noise import clean_labels, noisy_labels

PATH = (0, "pair-noise")


def test_no_noise_leaves_the_labels():
    assert noisy_labels(range(5), (0.0, 0.0), "label", path=PATH).equal(clean_labels(5))


def test_a_label_flips_where_its_draw_is_below_its_rate():
    rho0, rho1 = 0.3, 0.6
    labels = noisy_labels(range(50), (rho0, rho1), "label", path=PATH)
    for row, (chosen, rejected) in enumerate(labels.tolist()):
        assert chosen == (0.0 if derive_uniform(*PATH, row, 0) < rho1 else 1.0)
        assert rejected == (1.0 if derive_uniform(*PATH, row, 1) < rho0 else 0.0)


def test_a_pair_flips_as_a_whole():
    labels = noisy_labels(range(200), (0.4, 0.4), "pair", path=PATH)
    assert (labels.sum(dim=1) == 1).all()
    assert 0 < labels[:, 1].sum() < 200


def test_rows_do_not_depend_on_their_batch():
    whole = noisy_labels(range(20), (0.3, 0.3), "label", path=PATH)
    parts = torch.cat([noisy_labels([row], (0.3, 0.3), "label", path=PATH) for row in reversed(range(20))])
    assert parts.flip(0).equal(whole)


def test_a_higher_rate_flips_all_that_a_lower_one_does():
    low = noisy_labels(range(300), (0.1, 0.1), "label", path=PATH) != clean_labels(300)
    high = noisy_labels(range(300), (0.3, 0.3), "label", path=PATH) != clean_labels(300)
    assert (high | ~low).all()
    assert high.sum() > low.sum() > 0


@pytest.mark.parametrize("path", [(1, "pair-noise"), (0, "pair-noise", "epoch", 1), (0, "pair-noise", "step", 3)])
def test_another_path_draws_anew(path):
    first = noisy_labels(range(100), (0.3, 0.3), "label", path=PATH)
    assert not noisy_labels(range(100), (0.3, 0.3), "label", path=path).equal(first)


@pytest.mark.parametrize(("rho0", "rho1"), [(0.1, 0.1), (0.05, 0.3)])
def test_shares_of_flips(rho0, rho1):
    num_pairs = 4000
    labels = noisy_labels(range(num_pairs), (rho0, rho1), "label", path=PATH)
    is_flipped = labels != clean_labels(num_pairs)
    # Shares are means of n = 4,000 independent draws of probability p, with standard deviation sqrt(p (1 - p) / n), at
    # most .0074 for the three p below. Four of them, .03, are passed by chance in fewer than 1 of 15,000 seeds; the
    # seed is fixed.
    bound = 4 * (0.34 * 0.66 / num_pairs) ** 0.5
    assert is_flipped[:, 0].double().mean() == pytest.approx(rho1, abs=bound)
    assert is_flipped[:, 1].double().mean() == pytest.approx(rho0, abs=bound)
    is_tied = labels[:, 0] == labels[:, 1]
    assert is_tied.double().mean() == pytest.approx(rho1 * (1 - rho0) + rho0 * (1 - rho1), abs=bound)
