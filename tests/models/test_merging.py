import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from pvg_hf import VerifierScorer
from pvg_hf.config.sections import LoraConfig
from pvg_hf.models.merging import export_merged
from pvg_hf.models.prover import load_causal_lm, lora_for_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.sources import name_base
from pvg_hf.models.verifier import load_classifier, lora_for_verifier
from pvg_hf.models.verifier_input import VerifierInput

IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14]])


@torch.no_grad()
def _logits(model) -> torch.Tensor:
    return model.eval()(input_ids=IDS).logits


def _disturb(model):
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    return model


def _save(model, tokenizer, folder, player: str) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    name_base(model, folder, player=player, run=folder)


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_a_merged_prover_is_the_one_that_was_trained(quantization, wider_prover, tokenizer, tmp_path):
    base = load_causal_lm(str(wider_prover), quantization=quantization)
    model = _disturb(get_peft_model(base, lora_for_prover(LoraConfig(r=4))))
    _save(model, tokenizer, tmp_path / "adapter", "prover")
    export_merged(tmp_path / "adapter", tmp_path / "merged", player="prover", dtype=torch.float32)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert "quantization_config" not in merged.config.to_dict()
    torch.testing.assert_close(_logits(merged), _logits(model), atol=1e-4, rtol=0)
    assert not (tmp_path / "merged" / "adapter_config.json").exists()


@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_a_merged_verifier_scores_as_the_one_that_was_trained(quantization, wider_prover, tokenizer, tmp_path):
    classifier = load_classifier(str(wider_prover), quantization=quantization)
    model = _disturb(get_peft_model(classifier, lora_for_verifier(LoraConfig(r=4), classifier)))
    draw_head(model, seed=1)
    _save(model, tokenizer, tmp_path / "adapter", "verifier")
    VerifierInput("{{ problem }} {{ solution }}", tokenizer.eos_token, 64).save(tmp_path / "adapter")
    export_merged(tmp_path / "adapter", tmp_path / "merged", player="verifier", dtype=torch.float32)
    merged = AutoModelForSequenceClassification.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(_logits(merged), _logits(model), atol=1e-4, rtol=0)
    texts = (["Ana has 3 pens."] * 2, ["has 3", "has 4"])
    scores = [VerifierScorer.from_pretrained(tmp_path / name)(*texts) for name in ("adapter", "merged")]
    assert scores[1] == pytest.approx(scores[0], abs=1e-4)


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
