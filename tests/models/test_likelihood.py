"""A language model as a verifier: the scaled mean log-probability of a solution's tokens."""

from dataclasses import replace

import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from pvg_hf import VerifierScorer
from pvg_hf.config.player_sections import LoraConfig, VerifierConfig
from pvg_hf.experimental.judging.causal_judge import CausalJudge
from pvg_hf.models.export import export_merged
from pvg_hf.models.likelihood import scores_by_likelihood
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier, load_verifier, lora_for_verifier
from tests.support.adapted_players import save_player

PROBLEMS = ["Ana has 3 pens.", "Ana has 3 pens.", "How many pens does Ben have?"]
SOLUTIONS = ["has 3\n#### 3", "has 4", "Ben has 4 more than Ana: 3 + 4 = 7\n#### 7"]
SCALE = 5.0


@pytest.fixture
def verifier_input(tokenizer) -> VerifierInput:
    config = VerifierConfig(kind="likelihood", likelihood_scale=SCALE, max_length=64)
    return VerifierInput.of(config, tokenizer.eos_token)


@pytest.fixture
def model(tiny_prover):
    return load_initial_verifier(str(tiny_prover), likelihood_scale=SCALE)


def _with_adapter(model):
    adapted = get_peft_model(model, lora_for_verifier(LoraConfig(r=2), model))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.1)
    return adapted


def test_the_score_is_the_mean_log_probability_of_the_solutions_tokens(model, tokenizer, tiny_prover, verifier_input):
    found = VerifierScorer(model, tokenizer, verifier_input)(PROBLEMS, SOLUTIONS)
    judge = CausalJudge.from_pretrained(tiny_prover, question=None)  # another implementation, without the mark
    expected = judge(PROBLEMS, [solution + tokenizer.eos_token for solution in SOLUTIONS])
    assert found == pytest.approx([SCALE * value for value in expected], abs=1e-4)
    assert max(found) < 0


def test_the_bias_is_added_to_the_score_and_is_loaded_with_the_weights(model, tokenizer, verifier_input, tmp_path):
    plain = VerifierScorer(model, tokenizer, verifier_input)(PROBLEMS, SOLUTIONS)
    model.save_pretrained(tmp_path)
    replace(verifier_input, likelihood_bias=2.5).save_with(tokenizer, tmp_path)
    found = VerifierScorer.from_pretrained(tmp_path)(PROBLEMS, SOLUTIONS)
    assert found == pytest.approx([score + 2.5 for score in plain], abs=1e-4)


def test_only_the_first_mark_after_the_first_token_is_the_solutions(model, tokenizer):
    end = tokenizer.eos_token_id
    ids = torch.tensor([[end, 7, end, 8, end, 9]])  # a beginning of the same token, as some tokenizers write
    score = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    plain = torch.tensor([[end, 7, 8, end, 9]])
    logits = LlamaForCausalLM.forward(model, input_ids=plain).logits.log_softmax(-1)
    expected = torch.stack([logits[0, place - 1, plain[0, place]] for place in (2, 3, 4)]).mean()
    torch.testing.assert_close(score[0, 0], SCALE * expected)
    with pytest.raises(ValueError, match=r"no token .* between problem and solution"):
        model(input_ids=plain[:, :3], attention_mask=torch.ones(1, 3, dtype=torch.long))


def test_padding_does_not_change_a_score(model, tokenizer):
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    alone = torch.tensor([[7, end, 8, 9, end]])
    padded = torch.tensor([[7, end, 8, 9, end, pad, pad], [7, 8, 9, end, 10, 11, end]])
    mask = torch.tensor([[1] * 5 + [0] * 2, [1] * 7])
    scores = model(input_ids=padded, attention_mask=mask).logits
    torch.testing.assert_close(scores[:1], model(input_ids=alone, attention_mask=torch.ones_like(alone)).logits)


def test_a_solution_without_tokens_is_refused(model, tokenizer):
    ids = torch.tensor([[7, 8, tokenizer.eos_token_id]])
    with pytest.raises(ValueError, match="without tokens has no likelihood"):
        model(input_ids=ids, attention_mask=torch.ones_like(ids))


@pytest.mark.parametrize("has_adapter", [False, True])
def test_a_saved_verifier_is_a_language_model_with_the_same_scores(
    has_adapter, model, tokenizer, verifier_input, tmp_path
):
    trained = _with_adapter(model) if has_adapter else model
    expected = VerifierScorer(trained, tokenizer, verifier_input)(PROBLEMS, SOLUTIONS)
    save_player(trained, tokenizer, tmp_path / "verifier", "verifier")
    verifier_input.save_with(tokenizer, tmp_path / "verifier")
    assert scores_by_likelihood(load_verifier(tmp_path / "verifier")[0])
    export_merged(tmp_path / "verifier", tmp_path / "merged", player="verifier")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "merged").config.architectures == ["LlamaForCausalLM"]
    for name in ("verifier", "merged"):
        found = VerifierScorer.from_pretrained(tmp_path / name)(PROBLEMS, SOLUTIONS)
        assert found == pytest.approx(expected, abs=1e-4)


def test_inputs_need_an_end_token(tokenizer, verifier_input):
    class WithoutEnd:
        eos_token = None

    with pytest.raises(ValueError, match="no end token"):
        verifier_input.encode(WithoutEnd(), ["Ana has 3 pens."], ["has 3"])
