"""Figures of a cell, against values worked by hand."""

import math

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from pvg_hf.experimental.sweep.measures import clean_loss, parameter_distance


def test_clean_loss_is_over_all_pairs_of_a_problem():
    # Problem a: the pairs (2, 1) and (0, 1), softplus(-1) and softplus(1). Problem b: (0, 0), log 2. c has no pair.
    rows = pd.DataFrame(
        {"problem_id": list("aaabbc"), "score": [2, 0, 1, 0, 0, 9], "correct": [True, True, False, True, False, True]}
    )
    loss = clean_loss(rows)
    assert loss.value == pytest.approx((math.log(1 + math.exp(-1)) + math.log(1 + math.exp(1)) + math.log(2)) / 3)
    assert loss.n == 3


def test_without_a_pair_there_is_no_loss():
    assert clean_loss(pd.DataFrame({"problem_id": ["a"], "score": [1.0], "correct": [True]})).value is None


@pytest.fixture
def save(tmp_path):
    def save_weights(name: str, **tensors: list[float]):
        (tmp_path / name).mkdir()
        save_file(
            {key: torch.tensor(values) for key, values in tensors.items()}, tmp_path / name / "model.safetensors"
        )
        return tmp_path / name

    return save_weights


def test_distance_is_a_share_of_the_references_norm(save):
    ours, theirs = save("ours", body=[3.0, 0.0], head=[4.0]), save("theirs", body=[0.0, 0.0], head=[8.0])
    distance = parameter_distance(ours, theirs)  # sqrt(3^2 + 4^2) / 8
    assert (distance.value, distance.n) == (pytest.approx(5 / 8), 3)
    assert parameter_distance(theirs, theirs).value == 0


def test_other_weights_cannot_be_compared(save):
    with pytest.raises(ValueError, match=r"different tensors.*head"):
        parameter_distance(save("ours", body=[1.0]), save("theirs", body=[1.0], head=[1.0]))
