"""Verifiers: sequence classifiers with one logit."""

import re
from pathlib import Path

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.reward_trainer import suppress_seqcls_warning

from pvg_hf.config.sections import LoraConfig
from pvg_hf.models.sources import is_adapter, load_tokenizer, read_adapter

HEAD_STD = 0.02  # of a head drawn anew
# Decoders call the layer that gives the logit `score`, encoders `classifier`; PEFT keeps a trained copy of it.
_HEAD_WEIGHT = re.compile(r"(.*\.)?(score|classifier)(\.modules_to_save\.default)?(\.out_proj)?\.weight")


def load_verifier(
    folder: str | Path, *, dtype: torch.dtype = torch.float32, is_trainable: bool = False
) -> tuple[PreTrainedModel | PeftModel, PreTrainedTokenizerBase]:
    """A trained verifier from its folder: full weights, or an adapter with its head on the base that it names."""
    if not is_adapter(folder):
        return load_classifier(str(folder), dtype=dtype), load_tokenizer(folder)
    adapter = read_adapter(folder, "verifier")
    base = load_classifier(adapter.base_model_name_or_path, revision=adapter.revision, dtype=dtype)
    model = PeftModel.from_pretrained(base, folder, config=adapter, is_trainable=is_trainable)
    return model, load_tokenizer(folder)


def load_classifier(
    source: str, *, revision: str | None = None, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """A classifier with one logit; the head of a language model's checkpoint is drawn from torch's generator."""
    with suppress_seqcls_warning():
        model = AutoModelForSequenceClassification.from_pretrained(
            source, revision=revision, num_labels=1, dtype=dtype, trust_remote_code=False
        )
    if model.config.get_text_config().pad_token_id is None:
        model.config.get_text_config().pad_token_id = load_tokenizer(source, revision).pad_token_id
    return model


def draw_head(model: PreTrainedModel | PeftModel, seed: int) -> None:
    """
    Draw the score head anew from normal(0, 0.02), seeded (K24).

    Raises:
        ValueError: if `model` has no head.
    """
    heads = [parameter for name, parameter in model.named_parameters() if is_head_weight(name)]
    if not heads:
        raise ValueError(f"`{type(model).__name__}` has no score head (`score` or `classifier`) that could be drawn.")
    generator = torch.Generator().manual_seed(seed)
    for head in heads:
        drawn = torch.normal(0.0, HEAD_STD, head.shape, generator=generator)
        with torch.no_grad():
            head.copy_(drawn)


def is_head_weight(name: str) -> bool:
    """Whether a parameter is the weight of the score head (of the trained copy, where PEFT keeps two)."""
    return _HEAD_WEIGHT.fullmatch(name) is not None


def lora_for_verifier(config: LoraConfig, revision: str | None = None) -> PeftLoraConfig:
    """Adapters of a verifier; its head is trained and saved with them, and the Hub revision of their base."""
    return PeftLoraConfig(
        revision=revision,
        r=config.r,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=config.target_modules,
        exclude_modules=["score"],
        modules_to_save=["score"],
        task_type="SEQ_CLS",
    )
