import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from pvg_hf import VerifierScorer
from pvg_hf.models.export import export_merged
from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.verifier_input import VerifierInput
from tests.support.adapted_players import logits_of, make_verifier, save_player


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_a_merged_verifier_scores_as_the_one_that_was_trained(quantization, wider_prover, tokenizer, tmp_path):
    model = make_verifier(wider_prover, quantization)
    save_player(model, tokenizer, tmp_path / "adapter", "verifier")
    VerifierInput("{{ problem }} {{ solution }}", tokenizer.eos_token, 64).save(tmp_path / "adapter")
    export_merged(tmp_path / "adapter", tmp_path / "merged", player="verifier")
    merged = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged")
    assert merged.dtype == torch.float32  # scores are compared with a threshold
    torch.testing.assert_close(logits_of(merged), logits_of(model), atol=1e-4, rtol=0)
    texts = (["Ana has 3 pens."] * 2, ["has 3", "has 4"])
    scores = [VerifierScorer.from_pretrained(tmp_path / name)(*texts) for name in ("adapter", "merged")]
    assert scores[1] == pytest.approx(scores[0], abs=1e-4)
    assert AutoTokenizer.from_pretrained(tmp_path / "merged")("has 3")["input_ids"][-1] == tokenizer.eos_token_id


def test_full_weights_are_rounded_once(tiny_prover, tmp_path):
    export_merged(tiny_prover, tmp_path / "merged", player="prover")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert merged.dtype == torch.bfloat16
    original = load_causal_lm(str(tiny_prover)).model.embed_tokens.weight
    assert merged.model.embed_tokens.weight.equal(original.bfloat16())


def test_nothing_is_overwritten(tiny_prover, tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(ValueError, match="is not empty"):
        export_merged(tiny_prover, tmp_path, player="prover")
