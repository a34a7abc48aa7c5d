"""Verifiers of which an adapter and the head are trained."""

import logging

import pytest
import torch
from peft import LoraConfig, PeftModel
from transformers import LlamaForSequenceClassification

from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
from tests.support.verifier_training import llama, text_pairs, verifier_trainer
from tests.support.weights import moved_since, weights_of


@pytest.mark.parametrize("as_folder", [False, True])
def test_adapter_trains_the_head_and_reloads_to_the_same_scores(tmp_path, words, as_folder):
    llama().save_pretrained(tmp_path / "base")
    base = str(tmp_path / "base") if as_folder else LlamaForSequenceClassification.from_pretrained(tmp_path / "base")
    peft_config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    trainer = verifier_trainer(tmp_path, text_pairs(8), words, base, peft_config=peft_config, max_steps=3)
    before = weights_of(trainer.model)
    trainer.train()
    trained = {name for name, parameter in trainer.model.named_parameters() if parameter.requires_grad}
    assert moved_since(trainer.model, before) == trained
    assert "base_model.model.score.modules_to_save.default.weight" in trained
    assert all("lora_" in name or "modules_to_save" in name for name in trained)

    trainer.save_model(str(tmp_path / "adapter"))
    torch.manual_seed(1)  # another head, were it not saved
    fresh = LlamaForSequenceClassification.from_pretrained(tmp_path / "base")
    reloaded = PeftModel.from_pretrained(fresh, tmp_path / "adapter").eval()
    tokens = torch.tensor([[7, 8, 5, 2], [9, 6, 2, 0]])
    with torch.no_grad():
        expected = trainer.model.eval()(input_ids=tokens, attention_mask=tokens.ne(0).long()).logits
        scores = reloaded(input_ids=tokens, attention_mask=tokens.ne(0).long()).logits
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=0)


def test_an_adapter_with_a_frozen_head_is_warned_of(tmp_path, words, caplog):
    model = PeftModel(llama(), LoraConfig(r=2, target_modules=["q_proj"]))
    with caplog.at_level(logging.WARNING, logger="pvg_hf"):
        verifier_trainer(tmp_path, text_pairs(2), words, model)
    assert "head is frozen" in caplog.text


def test_quantised_model_trains_its_adapter_in_float32(tmp_path, words):
    pytest.importorskip("bitsandbytes", reason="needs `pip install pvg_hf[quant]`")
    from transformers import BitsAndBytesConfig

    llama().save_pretrained(tmp_path / "base")
    args = {"use_cpu": True, "report_to": "none", "max_steps": 1, "save_strategy": "no", "learning_rate": 1e-5}
    trainer = NoisyRewardTrainer(
        str(tmp_path / "base"),
        args=NoisyRewardConfig(str(tmp_path / "out"), warmup_steps=0, **args),
        train_dataset=text_pairs(8),
        processing_class=words,
        quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float32),
        peft_config=LoraConfig(r=2, target_modules=["q_proj", "v_proj"]),
    )
    head = trainer.model.base_model.model.score.modules_to_save["default"].weight
    assert head.dtype == torch.float32
    before = head.detach().clone()
    trainer.train()
    assert (head != before).all()
