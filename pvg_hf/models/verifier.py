"""Verifiers: sequence classifiers with one logit."""

from pathlib import Path

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.reward_trainer import suppress_seqcls_warning

from pvg_hf.config.players import LoraConfig
from pvg_hf.models.adapters import attach_adapter, lora_settings
from pvg_hf.models.quantization import mend_layers, quantization_arguments, saved_quantization
from pvg_hf.models.score_head import keep_head_precise, score_head_modules
from pvg_hf.models.sources import SAFELY, check_weights, is_adapter, load_tokenizer, read_adapter

HEADS = ("score", "classifier")  # which no quantisation touches


def load_verifier(
    folder: str | Path, *, dtype: torch.dtype = torch.float32, is_trainable: bool = False
) -> tuple[PreTrainedModel | PeftModel, PreTrainedTokenizerBase]:
    """A trained verifier from its folder: full weights, or an adapter with its head on the base that it names."""
    if not is_adapter(folder):
        return load_classifier(str(folder), dtype=dtype), load_tokenizer(folder)
    adapter = read_adapter(folder, "verifier")
    base = load_classifier(
        adapter.base_model_name_or_path,
        revision=adapter.revision,
        dtype=dtype,
        quantization=saved_quantization(folder),
    )
    return attach_adapter(base, folder, adapter, is_trainable=is_trainable), load_tokenizer(folder)


def load_classifier(
    source: str, *, revision: str | None = None, dtype: torch.dtype = torch.float32, quantization: str = "none"
) -> PreTrainedModel:
    """
    A classifier with one logit, whose head computes in float32; that of a language model's checkpoint is drawn from
    torch's generator.

    Raises:
        ValueError: if its weights are no safetensors.
    """
    check_weights(source)
    with suppress_seqcls_warning():
        model = AutoModelForSequenceClassification.from_pretrained(
            source,
            revision=revision,
            num_labels=1,
            dtype=dtype,
            **SAFELY,
            **quantization_arguments(quantization, dtype, kept=HEADS),
        )
    mend_layers(model)
    if model.config.get_text_config().pad_token_id is None:
        model.config.get_text_config().pad_token_id = load_tokenizer(source, revision).pad_token_id
    keep_head_precise(model)
    return model


def lora_for_verifier(config: LoraConfig, model: PreTrainedModel, revision: str | None = None) -> PeftLoraConfig:
    """Adapters of a verifier; its head is trained and saved with them, and the Hub revision of their base."""
    return lora_settings(config, "SEQ_CLS", revision=revision, head=score_head_modules(model))
