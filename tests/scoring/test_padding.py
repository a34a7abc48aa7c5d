"""A score does not depend on the padding of its batch, whatever the padding token of tokenizer and model is."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

from pvg_hf.experimental.judging.causal_judge import CausalJudge
from pvg_hf.models.likelihood import score_by_likelihood
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.scoring import VerifierScorer
from tests.support.verifier_training import PADDINGS, SIZES, WORDS, make_tokenizer

PROBLEMS = ["w1 w2 w3 w4 w5 w6 w7 w8 w1 w2", "w3"]
SOLUTIONS = ["good", "bad w1 w2 w3 w4 w5", "w2 w2", "w2 [PAD]", "w3 [EOS]"]
TEXTS = [problem for problem in PROBLEMS for _ in SOLUTIONS], SOLUTIONS * len(PROBLEMS)
DECODERS = {  # with rotary positions and prefixes that are read once, with learned positions, with ALiBi
    "llama": {"max_position_embeddings": 64, "initializer_range": 0.3, **SIZES},
    "gpt2": {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3},
}


def make_model(name: str, kind: str, pad_token_id: int | None):
    ids = {"pad_token_id": pad_token_id, "eos_token_id": WORDS.index("[EOS]"), "bos_token_id": None}
    config = AutoConfig.for_model(name, vocab_size=len(WORDS), num_labels=1, **DECODERS[name], **ids)
    torch.manual_seed(0)
    if kind == "head":
        return AutoModelForSequenceClassification.from_config(config)
    model = AutoModelForCausalLM.from_config(config)
    return score_by_likelihood(model, scale=1.0, mark=WORDS.index("[EOS]")) if kind == "likelihood" else model


@torch.no_grad()
def read_alone(model, rows: list[list[int]]) -> list[float]:
    ids = [torch.tensor([row]) for row in rows]
    return [model(input_ids=row, attention_mask=torch.ones_like(row)).logits.item() for row in ids]


@pytest.mark.parametrize("of_model", [None, "[PAD]", "[EOS]", "good"], ids=lambda token: f"model's {token}")
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("kind", ["head", "likelihood"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_score_is_that_of_the_input_alone(name, kind, padding, of_model):
    tokenizer = make_tokenizer(eos_token="[EOS]", **PADDINGS[padding])
    verifier_input = VerifierInput("{{ problem }} {{ solution }}", "[EOS]", 64, 1.0 if kind == "likelihood" else None)
    model = make_model(name, kind, None if of_model is None else WORDS.index(of_model))
    scorer = VerifierScorer(model, tokenizer, verifier_input)
    expected = pytest.approx(read_alone(model, verifier_input.encode(tokenizer, *TEXTS)), abs=1e-5)
    assert scorer(*TEXTS) == expected
    assert [scorer([problem], [solution])[0] for problem, solution in zip(*TEXTS, strict=True)] == expected


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", DECODERS)
def test_a_judges_score_is_that_of_the_input_alone(name, padding):
    tokenizer = make_tokenizer(eos_token="[EOS]", **PADDINGS[padding])
    question = "{{ problem }} {{ solution }} w1"
    judge = CausalJudge(make_model(name, "judge", None), tokenizer, question=question, verdicts=(" good", " bad"))
    alone = [judge([problem], [solution])[0] for problem, solution in zip(*TEXTS, strict=True)]
    assert judge(*TEXTS) == pytest.approx(alone, abs=1e-5)


def test_a_tokenizer_that_cannot_pad_is_an_error():
    with pytest.raises(ValueError, match="`pad_token`"):
        VerifierScorer(
            make_model("llama", "head", None),
            make_tokenizer(pad_token=None),
            VerifierInput("{{ problem }} {{ solution }}", None, 64),
        )
