import pytest
import torch
from transformers import LlamaConfig, LlamaForSequenceClassification

from pvg_hf.experimental.bench.opening import open_folder
from tools.pretraining.tokenizers import build_arithmetic_tokenizer

SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def _save_classifier(folder, **labels):
    torch.manual_seed(0)
    tokenizer = build_arithmetic_tokenizer()
    config = LlamaConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **SIZES, **labels)
    model = LlamaForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def test_a_classifier_with_two_logits_scores_by_their_difference(tmp_path):
    model, tokenizer = _save_classifier(tmp_path, id2label={0: "correct", 1: "incorrect"})
    scorer, scored_by = open_folder(str(tmp_path), device="cpu", template="{{ problem }} {{ solution }}", asks=False)
    assert scored_by == "the difference of two logits"
    with torch.no_grad():
        correct, incorrect = model(**tokenizer("Ana has 3. #### 3", return_tensors="pt")).logits[0].tolist()
    assert scorer(["Ana has 3."], ["#### 3"]) == pytest.approx([correct - incorrect], abs=1e-6)


def test_more_logits_are_refused(tmp_path):
    _save_classifier(tmp_path, num_labels=5)
    with pytest.raises(ValueError, match="5 logits"):
        open_folder(str(tmp_path), device="cpu", template=None, asks=False)
