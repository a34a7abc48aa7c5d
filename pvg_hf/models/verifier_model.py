"""Loads verifiers: sequence classifiers, and language models that score by likelihood."""

from pathlib import Path

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.reward_trainer import suppress_seqcls_warning

from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.adapters import attach_adapter, lora_settings
from pvg_hf.models.likelihood import score_by_likelihood, scores_by_likelihood
from pvg_hf.models.prover_model import load_causal_lm, lora_for_prover
from pvg_hf.models.quantization import mend_layers, quantization_arguments, saved_quantization
from pvg_hf.models.score_head import (
    check_classifier_source,
    keep_head_precise,
    return_raw_scores,
    score_head_modules,
    set_padding,
    subtract_logits,
)
from pvg_hf.models.sources import LOADING, SAFELY, check_weight_files, is_adapter, load_tokenizer, read_adapter
from pvg_hf.models.verifier_input import VerifierInput, is_verifier

HEADS = ("score", "classifier")  # modules that are never quantised


def load_verifier(
    folder: str | Path, *, dtype: torch.dtype = torch.float32, is_trainable: bool = False
) -> tuple[PreTrainedModel | PeftModel, PreTrainedTokenizerBase]:
    """
    Load a trained verifier from its folder: full weights, or an adapter (with its head, if it has one) on the base
    that it names.
    """
    saved = VerifierInput.load(Path(folder)) if is_verifier(Path(folder)) else None
    score = {} if saved is None else {key: getattr(saved, key) for key in ("likelihood_scale", "likelihood_bias")}
    if not is_adapter(folder):
        return load_initial_verifier(str(folder), dtype=dtype, **score), load_tokenizer(folder)
    adapter = read_adapter(folder, "verifier")
    base = load_initial_verifier(
        str(adapter.base_model_name_or_path),
        revision=adapter.revision,
        dtype=dtype,
        quantization=saved_quantization(folder),
        **score,
    )
    tokenizer = load_tokenizer(folder)
    set_padding(base, tokenizer)  # that of the training, which the base's configuration need not have
    return attach_adapter(base, folder, adapter, is_trainable=is_trainable), tokenizer


def load_initial_verifier(
    source: str,
    *,
    revision: str | None = None,
    likelihood_scale: float | None = None,
    likelihood_bias: float = 0.0,
    **kwargs,
) -> PreTrainedModel:
    """
    Load the weights that a verifier starts from.

    Args:
        source (`str`):
            A folder or a Hub id, of a language model or a classifier.
        likelihood_scale (`float`, *optional*):
            Scale of a verifier that scores by likelihood. By default, the verifier is a classifier.
        likelihood_bias (`float`, defaults to 0):
            Added to the score of a verifier that scores by likelihood.
        kwargs:
            `dtype` and `quantization`, as for [`load_classifier`].
    """
    if likelihood_scale is None:
        return load_classifier(source, revision=revision, **kwargs)
    model = load_causal_lm(source, revision=revision, **kwargs)
    mark = load_tokenizer(source, revision).eos_token_id
    return score_by_likelihood(model, scale=likelihood_scale, mark=mark, bias=likelihood_bias)


def load_classifier(
    source: str, *, revision: str | None = None, dtype: torch.dtype = torch.float32, quantization: str = "none"
) -> PreTrainedModel:
    """
    Load a classifier with one logit and a head that computes in float32; of two logits it is the difference.

    The head on a language model's checkpoint is drawn from torch's global generator.

    Raises `ValueError` if its weights are not safetensors, or it has other logits.
    """
    check_weight_files(source)
    with LOADING, suppress_seqcls_warning():
        model = AutoModelForSequenceClassification.from_pretrained(
            source,
            revision=revision,
            num_labels=check_classifier_source(source, revision=revision),
            dtype=dtype,
            **SAFELY,
            **quantization_arguments(quantization, dtype, kept=HEADS),
        )
    mend_layers(model)
    subtract_logits(model)
    if model.config.get_text_config().pad_token_id is None:
        set_padding(model, load_tokenizer(source, revision))
    keep_head_precise(model)
    return_raw_scores(model)
    return model


def lora_for_verifier(config: LoraConfig, model: PreTrainedModel, revision: str | None = None) -> PeftLoraConfig:
    """
    Return the adapter settings of a verifier.

    The head, if there is one, and the Hub revision of the base are saved with the adapters.
    """
    if scores_by_likelihood(model):
        return lora_for_prover(config, revision)
    return lora_settings(config, "SEQ_CLS", revision=revision, head=score_head_modules(model))
