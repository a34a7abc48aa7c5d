"""Loads provers, which are causal language models with or without an adapter."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel
from peft.tuners import lora
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.adapters import attach_adapter, lora_settings, merge_into_base
from pvg_hf.models.quantization import is_quantized, mend_layers, quantization_arguments, saved_quantization
from pvg_hf.models.sources import LOADING, SAFELY, check_weight_files, is_adapter, load_tokenizer, read_adapter


def load_prover(
    source: str | Path, *, revision: str | None = None, dtype: torch.dtype = torch.float32, quantization: str = "none"
) -> tuple[PreTrainedModel | PeftModel, PreTrainedTokenizerBase]:
    """
    Load a prover from the Hub or a folder: full weights, or an adapter on the base that it names.

    The base of an adapter is quantised as it was during training.
    """
    tokenizer = load_tokenizer(source, revision)
    tokenizer.padding_side = "left"  # generation continues at the right end
    if not is_adapter(source):
        model = load_causal_lm(str(source), revision=revision, dtype=dtype, quantization=quantization)
        return model, tokenizer
    adapter = read_adapter(source, "prover")
    base = load_causal_lm(
        str(adapter.base_model_name_or_path),
        revision=adapter.revision,
        dtype=dtype,
        quantization=saved_quantization(source),
    )
    return attach_adapter(base, source, adapter), tokenizer


def merge_adapter(model: PreTrainedModel | PeftModel) -> PreTrainedModel | PeftModel:
    """
    Merge the adapter of a prover that will only generate, which saves two small matrix products per layer.

    In half precision or 4 bits the merged weights would be rounded, which loses a part of the adapter
    (docs/explanation/speed-and-memory.md has the figures); the prover keeps its adapter.
    """
    if isinstance(model, PeftModel) and model.dtype == torch.float32 and not is_quantized(model):
        return merge_into_base(model)
    return model


@contextmanager
def merged_adapter(model: PreTrainedModel | PeftModel) -> Iterator[None]:
    """
    Merge the adapter of a prover in training for as long as it generates; afterwards the very same weights are back.

    Like [`merge_adapter`], this is for float32 only. It is also for CPUs only, where the small matrix products of an
    adapter take a third of the time: on a GPU, the second copy of the weights might not fit.
    """
    is_exact = isinstance(model, PeftModel) and model.dtype == torch.float32 and model.device.type == "cpu"
    layers: list[Any] = [module for module in model.modules() if _merges_exactly(module, model)] if is_exact else []
    weights = [layer.get_base_layer().weight.data for layer in layers]
    try:
        with torch.no_grad():
            for layer in layers:
                layer.merge(safe_merge=True)  # into a copy
        yield
    finally:
        for layer, weight in zip(layers, weights, strict=True):
            layer.get_base_layer().weight.data = weight
            layer.merged_adapters.clear()


@contextmanager
def kept_base(model: PreTrainedModel | PeftModel) -> Iterator[None]:
    """
    Restore the base's weights of layers with an adapter at the end.

    For vLLM, TRL merges the adapter and takes it out again, which rounds weights in half precision. Without this, the
    base drifts away from the one that the adapter is saved with. Copies are kept in the CPU's memory.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, lora.LoraLayer)]
    weights = [layer.get_base_layer().weight.data for layer in layers]
    copies = [weight.to("cpu", copy=True) for weight in weights]
    try:
        yield
    finally:
        for weight, stored in zip(weights, copies, strict=True):
            weight.copy_(stored)


def _merges_exactly(module: nn.Module, model: PreTrainedModel | PeftModel) -> bool:
    """Whether merging changes the weight of a layer only, which no other layer shares (as a tied output layer's)."""
    if not isinstance(module, lora.Linear) or any(module.lora_bias.values()):
        return False
    return module.get_base_layer().weight is not model.get_input_embeddings().weight


def load_causal_lm(
    source: str, *, revision: str | None = None, dtype: torch.dtype = torch.float32, quantization: str = "none"
) -> PreTrainedModel:
    """Load a causal language model without an adapter. Raises `ValueError` if its weights are not safetensors."""
    check_weight_files(source)
    with LOADING:
        model = AutoModelForCausalLM.from_pretrained(
            source, revision=revision, dtype=dtype, **SAFELY, **quantization_arguments(quantization, dtype)
        )
    # Without this, gradients through 4-bit layers are wrong on some processors.
    mend_layers(model)
    return model


def lora_for_prover(config: LoraConfig, revision: str | None = None) -> PeftLoraConfig:
    """Return the adapter settings of a prover; they are saved with the Hub revision of the base."""
    return lora_settings(config, "CAUSAL_LM", revision=revision)
