import math

import pytest
import torch

from pvg_hf.rewards import acceptance, correctness_only, goodhart

SCORES = torch.tensor([1.5, -0.5, -3.0, 4.0])
CORRECT = torch.tensor([1, 0, 1, 0], dtype=torch.bool)
SNEAKY = torch.tensor([0, 0, 1, 1], dtype=torch.bool)
ANSWERED = torch.tensor([0, 1, 1, 0], dtype=torch.bool)


def test_goodhart_is_the_score_even_without_an_answer():
    assert goodhart(SCORES, CORRECT, SNEAKY, group_size=2, answered=ANSWERED).tolist() == SCORES.tolist()


def test_correctness_only_is_one_in_role():
    assert correctness_only(SCORES, CORRECT, SNEAKY, group_size=2).tolist() == [1, 0, 0, 1]


def test_correctness_only_is_zero_without_an_answer():
    assert correctness_only(SCORES, CORRECT, SNEAKY, group_size=2, answered=ANSWERED).tolist() == [0, 0, 0, 0]


def test_acceptance_by_hand():
    # sigmoid(ln 4) = 4/5, sigmoid(-ln 4) = 1/5
    scores = torch.tensor([math.log(4), -math.log(4), 0.0])
    assert acceptance(scores, form="prob").tolist() == pytest.approx([0.8, 0.2, 0.5])
    assert acceptance(scores).tolist() == pytest.approx([math.log(0.8), math.log(0.2), math.log(0.5)])


def test_acceptance_has_the_signature_of_rewards():
    named = acceptance(SCORES, CORRECT, SNEAKY, group_size=2, answered=ANSWERED)
    assert torch.equal(named, acceptance(SCORES))


def test_log_acceptance_stays_finite():
    assert acceptance(torch.tensor([-1e4, 1e4])).tolist() == [-1e4, 0]


def test_an_unknown_form_of_acceptance_is_an_error():
    with pytest.raises(ValueError, match=r"form `logit`.* log_prob, prob"):
        acceptance(SCORES, form="logit")
