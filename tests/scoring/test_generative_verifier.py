"""Scoring with a generative verifier."""

import pytest
import torch

from pvg_hf.models.prover_model import load_prover
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.tasks.proofs.language import PROOF_SETTINGS

PROBLEM = "Ana has 3 pens. On Monday Ana finds 2 pens. How many pens does Ana have?"
PROOFS = ["has 3\nMonday finds 2: 3 + 2 = 5\n#### 5", "has 3\n#### 3", "has 3\nMonday finds 2: = 5\n#### 5"]


@pytest.fixture
def verifier(tiny_prover) -> GenerativeVerifier:
    model, tokenizer = load_prover(tiny_prover)
    return GenerativeVerifier(model, tokenizer, PROOF_SETTINGS, num_analyses=2)


def test_evaluations_depend_on_the_texts_only(verifier):
    together = verifier.evaluate([PROBLEM] * 3, PROOFS, 2)
    apart = [verifier.evaluate([PROBLEM], [proof], 2)[0] for proof in reversed(PROOFS)]
    texts = [[sample.text for sample in samples] for samples in together]
    assert texts == [[sample.text for sample in samples] for samples in reversed(apart)]
    assert len({text for of_proof in texts for text in of_proof}) == 6


def test_evaluations_without_a_score_count_as_0_and_are_counted(verifier):
    assert verifier([PROBLEM] * 3, PROOFS) == [0.0, 0.0, 0.0]
    assert verifier.num_unreadable == 6
    assert verifier.rate_analyses([PROBLEM], PROOFS[:1], ["has 3 | ok"]) == [None]
    assert verifier.check_analyses([PROBLEM], PROOFS[:1], ["has 3 | ok"], 3) == [[None, None, None]]
    assert verifier.num_unreadable == 10


def test_no_solutions_need_no_model_call(verifier):
    assert verifier([], []) == []
    assert verifier.check_analyses([], [], [], 3) == []


RECALLED = [
    ("Ana has 5 pens.", "has 5\n#### 5"),
    ("Ben has 4 pens.", "has 7\n#### 7"),
    ("Dev has 6 pens.", "has 3\n#### 3"),
]


def test_the_expected_score_agrees_with_the_sampled_one_and_scatters_less(writer):
    problems, proofs = map(list, zip(*RECALLED, strict=True))
    n, scores = 64, {}
    for estimate in ("sampled", "expected"):
        verifier = GenerativeVerifier.from_pretrained(writer, device="cpu", num_analyses=n, estimate=estimate)
        scores[estimate] = verifier(problems, proofs)
    for sampled, expected in zip(scores["sampled"], scores["expected"], strict=True):
        # Scores lie in [0, 1], so that a mean over n scatters by at most .5 / sqrt(n); both estimates take the same
        # analyses.
        assert abs(sampled - expected) < 4 * 0.5 / n**0.5
        assert 0 <= expected <= 1
    few = [
        [
            GenerativeVerifier.from_pretrained(writer, device="cpu", num_analyses=1, estimate=estimate, seed=seed)(
                problems, proofs
            )
            for seed in range(8)
        ]
        for estimate in ("sampled", "expected")
    ]
    spread = [torch.tensor(rows).var(0).sum().item() for rows in few]
    assert spread[1] < spread[0]


def test_the_verifiers_weights_are_frozen(verifier, tiny_prover):
    model = verifier.model
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not model.training
    assert torch.equal(model.lm_head.weight, load_prover(tiny_prover)[0].lm_head.weight)


def test_wrong_folders_and_numbers_are_errors(verifier, tiny_prover):
    with pytest.raises(ValueError, match=r"no score_verifier\.json"):
        GenerativeVerifier.from_pretrained(tiny_prover)
    with pytest.raises(ValueError, match="`no/folder` is not a folder"):
        GenerativeVerifier.from_pretrained("no/folder")
    with pytest.raises(ValueError, match="`estimate` is `expect`"):
        GenerativeVerifier(verifier.model, None, PROOF_SETTINGS, estimate="expect")
    with pytest.raises(ValueError, match="`num_analyses` is 0"):
        GenerativeVerifier(verifier.model, None, PROOF_SETTINGS, num_analyses=0)
