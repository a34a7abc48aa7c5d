import math

import pytest
import torch

from pvg_hf.rewards import composite, gated_multiplicative

LN4 = math.log(4)  # sigmoid(ln 4) = .8
SCORES = torch.tensor([LN4, LN4, -LN4], dtype=torch.float64)
SIGNALS = {
    "test_pass_rate": torch.tensor([1.0, 0.5, 0.75], dtype=torch.float64),
    "certified": torch.tensor([True, False, True]),
    "similarity": torch.tensor([0.25, 0.0, 1.0], dtype=torch.float64),
}
WEIGHTS = {"test_pass_rate": 2.0, "certified": 1.0, "dissimilarity": 0.4, "acceptance_prob": 0.5}


def test_composite_is_the_weighted_sum_of_signals():
    # 2 + 1 + .4 * .75 + .5 * .8; 1 + 0 + .4 + .4; 1.5 + 1 + 0 + .1
    assert composite(SCORES, weights=WEIGHTS, **SIGNALS).tolist() == pytest.approx([3.7, 1.8, 2.6])


def test_a_failed_gate_zeroes_the_whole():
    rewards = composite(SCORES, weights=WEIGHTS, gates={"certified": 1.0}, **SIGNALS)
    assert rewards.tolist() == pytest.approx([3.7, 0, 2.6])
    # A gate is passed at its least value, needs no weight, and every gate counts.
    gates = {"test_pass_rate": 0.5, "acceptance_prob": 0.6}
    rewards = composite(SCORES, weights={"certified": 3.0}, gates=gates, **SIGNALS)
    assert rewards.tolist() == [3, 0, 0]
    rewards = composite(SCORES, weights={"dissimilarity": 3.0}, gates=gates, **SIGNALS)
    assert rewards.tolist() == [2.25, 3, 0]


def test_composite_needs_only_the_signals_with_a_weight():
    assert composite(SCORES, weights={"acceptance_prob": 1.0}).tolist() == pytest.approx([0.8, 0.8, 0.2])


def test_gated_multiplicative_by_hand():
    # (1 * 1) (1 - .5 * .25) .8 = .7; not certified; (.75 * 1) (1 - .5) .2 = .075
    assert gated_multiplicative(SCORES, alpha=0.5, **SIGNALS).tolist() == pytest.approx([0.7, 0, 0.075])


def test_a_certificate_counts_for_the_role_that_it_proves():
    """Certified are: a correct and an incorrect helpful solution, then a correct and an incorrect sneaky one."""
    correct, sneaky = torch.tensor([True, False, True, False]), torch.tensor([False, False, True, True])
    signals = {"test_pass_rate": torch.ones(4), "certified": torch.ones(4), "similarity": torch.full((4,), 0.5)}
    scores = torch.full((4,), LN4)
    # 1 * (1 - .5 * .5) * .8
    paid = gated_multiplicative(scores, correct, sneaky, group_size=2, alpha=0.5, **signals)
    assert paid.tolist() == pytest.approx([0.6, 0, 0, 0.6])
    weights = {"certified": 2.0, "test_pass_rate": 1.0}
    assert composite(scores, correct, sneaky, group_size=2, weights=weights, **signals).tolist() == [3, 1, 1, 3]
    gates = {"certified": 1.0}
    paid = composite(scores, correct, sneaky, weights={"test_pass_rate": 1.0}, gates=gates, **signals)
    assert paid.tolist() == [1, 0, 0, 1]


def test_a_negative_score_never_pays_for_failing_the_gate():
    failed = {"test_pass_rate": torch.zeros(1), "certified": torch.tensor([False]), "similarity": torch.zeros(1)}
    passed = {"test_pass_rate": torch.ones(1), "certified": torch.tensor([True]), "similarity": torch.zeros(1)}
    scores = torch.tensor([-5.0])
    assert gated_multiplicative(scores, alpha=0.5, **passed) > gated_multiplicative(scores, alpha=0.5, **failed)


def test_rewards_are_zero_without_an_answer():
    answered = torch.tensor([False, True, False])
    assert composite(SCORES, weights=WEIGHTS, answered=answered, **SIGNALS).tolist() == pytest.approx([0, 1.8, 0])
    assert gated_multiplicative(SCORES, alpha=0.5, answered=answered, **SIGNALS).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": {"certified": -1.0}}, "weight of `certified` is -1.0"),
        ({"weights": {"certified": 0.0}}, "at least one must be above 0"),
        ({"weights": {}}, "at least one must be above 0"),
        ({"weights": {"certfied": 1.0}}, "signal `certfied`.* `certified`"),
        ({"weights": {"zebra": 1.0}}, "signal `zebra`.* `test_pass_rate`, .*`acceptance_prob`"),
        (
            {"weights": WEIGHTS, "gates": {"similarity": 1.0}},
            "signal `similarity`.* `dissimilarity`",
        ),
        ({"weights": WEIGHTS, "gates": {"certified": 1.5}}, "gate of `certified` is 1.5"),
        ({"weights": WEIGHTS, "similarity": None}, "`dissimilarity` .* `similarity` was not"),
        (
            {"weights": WEIGHTS, "test_pass_rate": torch.tensor([0.0, 1.5, 1.0])},
            "`test_pass_rate` must lie in.*e.g. 1.5",
        ),
        ({"weights": WEIGHTS, "similarity": torch.zeros(2)}, r"`similarity` has shape \(2,\)"),
        ({"weights": WEIGHTS, "answered": torch.ones(2)}, r"`answered` has shape \(2,\)"),
    ],
)
def test_composite_rejects_invalid_weights_gates_and_signals(settings, message):
    with pytest.raises(ValueError, match=message):
        composite(SCORES, **SIGNALS | settings)


def test_signals_of_a_solution_without_an_answer_are_not_read():
    unknown = torch.tensor([0.5, math.nan], dtype=torch.float64)
    answered = torch.tensor([True, False])
    paid = composite(SCORES[:2], weights={"test_pass_rate": 1.0}, test_pass_rate=unknown, answered=answered)
    assert paid.tolist() == [0.5, 0]
    with pytest.raises(ValueError, match=r"`test_pass_rate` .*1 of 2"):
        composite(SCORES[:2], weights={"test_pass_rate": 1.0}, test_pass_rate=unknown)
    assert composite(SCORES[:2], weights={"acceptance_prob": 1.0}, test_pass_rate=unknown).tolist() == pytest.approx(
        [0.8, 0.8]
    )


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan])
def test_gated_multiplicative_rejects_an_alpha_outside_its_range(alpha):
    with pytest.raises(ValueError, match=f"`alpha` is {alpha}"):
        gated_multiplicative(SCORES, alpha=alpha, **SIGNALS)
