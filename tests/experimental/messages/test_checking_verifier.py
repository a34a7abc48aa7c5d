"""The checking verifier at its parity start decides linear systems exactly."""

import pytest
import torch

from pvg_hf.experimental.messages.checking_verifier import CheckingVerifier, CheckingVerifierConfig
from pvg_hf.experimental.messages.decisions.linear_systems import LinearSystems
from pvg_hf.experimental.messages.game_modules import acceptance_scores


@pytest.mark.parametrize("num_logits", [1, 2])
def test_the_parity_start_accepts_exactly_the_solutions(num_logits):
    problems = LinearSystems(5, 3, num_test=200).problems("test", with_witness=True)
    config = CheckingVerifierConfig(
        num_inputs=20, message_width=3, num_checks=5, start="parity", num_logits=num_logits
    )
    verifier = CheckingVerifier(config)
    scores = acceptance_scores(verifier(torch.from_numpy(problems.witness), torch.from_numpy(problems.inputs)))
    assert ((scores > 0) == torch.from_numpy(problems.labels == 1)).all()
    # All checks hold: 4 (m - (m - 1)) = 4. A violation costs 2 x 4.
    assert scores.max().item() == pytest.approx(4.0, abs=1e-3)
    assert scores.min().item() < 0


def test_a_random_start_depends_on_products(tmp_path):
    torch.manual_seed(0)
    verifier = CheckingVerifier(CheckingVerifierConfig(num_inputs=6, message_width=2, num_checks=4))
    message, problems = torch.randn(3, 2), torch.randn(3, 6)
    logits = verifier(message, problems)
    logits.sum().backward()
    assert verifier.products.weight.grad.abs().sum() > 0
    verifier.save_pretrained(tmp_path)
    assert torch.equal(CheckingVerifier.from_pretrained(tmp_path)(message, problems), logits)


def test_a_trained_parity_start_is_loaded_as_it_was_saved(tmp_path):
    verifier = CheckingVerifier(CheckingVerifierConfig(num_inputs=6, message_width=2, num_checks=2, start="parity"))
    with torch.no_grad():
        verifier.readout.bias.fill_(0.5)
    verifier.save_pretrained(tmp_path)
    assert CheckingVerifier.from_pretrained(tmp_path).readout.bias.tolist() == [0.5]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"start": "clever"}, "`start` is `clever`.*'parity'"),
        ({"start": "parity", "num_checks": 3}, "165 inputs are not 3 x"),
        ({"start": "parity", "num_checks": 15, "message_form": "discrete"}, "needs `continuous` messages"),
        ({"num_logits": 0}, "`num_logits` is 0"),
    ],
    ids=["unknown", "no-system", "discrete", "logits"],
)
def test_impossible_starts_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        CheckingVerifierConfig(**options)
