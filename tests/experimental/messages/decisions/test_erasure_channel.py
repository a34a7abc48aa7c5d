"""The erasure channel: closed forms by hand and against simulation."""

import math

import numpy as np
import pytest

from pvg_hf.experimental.messages.decisions.erasure_channel import ErasureChannel, determined_prob, solve_channel

LINEAR = {"length": 6, "code": "linear", "num_padding": 3, "seed": 44}


@pytest.mark.parametrize(("length", "p"), [(1, 0.5), (3, 0.4), (5, 0.7)])
def test_soundness_of_the_repetition_code(length, p):
    optimum = solve_channel(ErasureChannel(length, p))
    assert optimum.soundness == pytest.approx(1 - p**length)
    assert optimum.soundness_checking == pytest.approx(1 - p**length)


def test_optimum_by_hand_at_one_symbol():
    # One symbol, erased half of the time, labels flipped at .1: D = 1/2.
    optimum = solve_channel(ErasureChannel(1, 0.5), 0.1)
    entropy = -0.1 * math.log(0.1) - 0.9 * math.log(0.9)
    assert optimum.noisy_loss == pytest.approx(0.5 * entropy + 0.5 * math.log(2))
    assert optimum.clean_loss == pytest.approx(-0.5 * math.log(0.9) + 0.5 * math.log(2))


def test_loss_of_checking_by_hand():
    # p^d = 1/2: a lie passes half of the time, so that an uncontradicted claim is true with probability 2/3.
    optimum = solve_channel(ErasureChannel(1, 0.5), 0.1)
    prob = 0.8 * 2 / 3 + 0.1
    expected = -0.25 * math.log(0.9) - 0.5 * math.log(prob) - 0.25 * math.log(1 - prob)
    assert optimum.clean_loss_checking == pytest.approx(expected)


def test_a_linear_code_by_hand():
    channel = ErasureChannel(2, 0.3, code="linear", num_padding=1)
    channel.generator = np.array([0b01, 0b11], dtype=np.uint64)  # symbols: bit + padding, padding
    # Both symbols are needed to determine the bit; the lie 01 differs from the sent word in a single symbol.
    assert determined_prob(channel) == pytest.approx(0.7**2)
    assert int(channel.closest_lie) == 0b01
    assert solve_channel(channel).soundness_checking == pytest.approx(0.7)


@pytest.mark.parametrize("options", [{"length": 4}, LINEAR], ids=["repetition", "linear"])
def test_closed_forms_agree_with_simulation(options):
    number = 20_000
    channel = ErasureChannel(**options, erasure_prob=0.5, num_train=number)
    problems = channel.problems("train", with_witness=True)
    is_no = problems.labels == 0
    bits = np.arange(1 << (1 + channel.num_padding), dtype=np.uint64)
    codewords = (channel.encode(bits)[:, None] >> np.arange(channel.length, dtype=np.uint64) & np.uint64(1)) * 2.0 - 1
    # A word contradicts the claim if no codeword whose first bit is 1 agrees with its unerased symbols.
    claims = codewords[bits % 2 == 1]
    words = problems.inputs[is_no]
    is_possible = ((words[:, None, :] == claims) | (words[:, None, :] == 0)).all(axis=2).any(axis=1)
    optimum = solve_channel(channel)
    error = 4 * 0.5 / math.sqrt(is_no.sum())  # four standard errors at most
    assert 1 - is_possible.mean() == pytest.approx(optimum.soundness, abs=error)
    is_consistent = ((words == problems.witness[is_no]) | (words == 0)).all(axis=1)
    assert 1 - is_consistent.mean() == pytest.approx(optimum.soundness_checking, abs=error)
    honest = (problems.inputs == problems.witness) | (problems.inputs == 0)
    assert honest[~is_no].all()  # completeness 1


def test_noisy_losses_agree_with_simulation():
    channel, epsilon = ErasureChannel(2, 0.5, num_train=40_000), 0.2
    problems = channel.problems("train")
    flips = np.random.default_rng(0).random(40_000) < epsilon
    noisy = problems.labels ^ flips
    total = problems.inputs.sum(axis=1)
    prob = np.where(total > 0, 1 - epsilon, np.where(total < 0, epsilon, 0.5))
    optimum = solve_channel(channel, epsilon)
    for labels, loss in ((noisy, optimum.noisy_loss), (problems.labels, optimum.clean_loss)):
        losses = -np.where(labels == 1, np.log(prob), np.log(1 - prob))
        assert losses.mean() == pytest.approx(loss, abs=4 * losses.std() / math.sqrt(len(losses)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"erasure_prob": 1.0}, "`erasure_prob`.*got 1.0"),
        ({"code": "repeat"}, "`repeat`.*`repetition`"),
        ({"num_padding": 2}, "`num_padding` is 2"),
        ({"code": "linear"}, "`num_padding` is 0"),
        ({"length": 17}, "`length`.*got 17"),
    ],
    ids=["certain-erasure", "unknown-code", "padding-of-repetition", "no-padding", "too-long"],
)
def test_options_out_of_range_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        ErasureChannel(**options)


def test_epsilon_out_of_range_is_an_error():
    with pytest.raises(ValueError, match=r"`epsilon` is 0\.5"):
        solve_channel(ErasureChannel(), 0.5)
