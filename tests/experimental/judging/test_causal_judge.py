"""Scores by the log-probabilities of a causal language model."""

import numpy as np
import pytest
import torch

from pvg_hf.experimental.judging.causal_judge import CausalJudge
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import resolve_model

PROBLEM = "Ana has 12 pens.\nBen has 6 more than Ana.\nHow many pens does Ben have?"
SOLUTIONS = ["Ana has 12\nBen has 6 more than Ana: 12 + 6 = 18\n#### 18", "Ana has 12\n#### 12", "#### 7"]


@pytest.fixture(scope="module")
def prover():
    return load_prover(resolve_model("arithmetic", "prover"))


def logprob_by_hand(model, tokenizer, beginning: str, ending: str) -> tuple[float, int]:
    first = tokenizer(beginning)["input_ids"]
    last = tokenizer(ending, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([first + last])).logits[0].log_softmax(-1)
    return sum(logits[len(first) + k - 1, token].item() for k, token in enumerate(last)), len(last)


def test_likelihood_is_the_mean_logprob_of_the_solution(prover):
    judge = CausalJudge(*prover, question=None, tokens_per_batch=64)  # several batches, with padding
    expected = [total / size for total, size in (logprob_by_hand(*prover, PROBLEM + "\n", text) for text in SOLUTIONS)]
    assert np.allclose(judge([PROBLEM] * 3, SOLUTIONS), expected, atol=1e-4)


def test_verdict_is_a_difference_of_logprobs(prover):
    question, verdicts = "{{ problem }}\n{{ solution }}\n", ("Ana", "Ben has")
    judge = CausalJudge(*prover, question=question, verdicts=verdicts)
    expected = []
    for text in SOLUTIONS:
        asked = f"{PROBLEM}\n{text}\n"
        accepted, rejected = (logprob_by_hand(*prover, asked, verdict)[0] for verdict in verdicts)
        expected.append(accepted - rejected)
    assert np.allclose(judge([PROBLEM] * 3, SOLUTIONS), expected, atol=1e-3)


def test_a_solution_without_a_token_has_a_score(prover):
    assert CausalJudge(*prover, question=None)([PROBLEM], [""]) == [0]
