"""Checks and prepares classifiers for the verifier's trainer."""

import copy
from typing import Any

import torch
from peft import PeftConfig, PeftModel
from transformers import AutoConfig, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from trl import RewardConfig

from pvg_hf.models.score_head import classifier_of, score_head_modules
from pvg_hf.models.sources import is_adapter

_REMEDY = (
    "A verifier has one logit. To replace the head by a new one, load the model with "
    "`AutoModelForSequenceClassification.from_pretrained(..., num_labels=1, ignore_mismatched_sizes=True)`"
)


def check_classifier_source(source: str, *, revision: str | None = None, trust_remote_code: bool = False) -> None:
    """
    Refuse checkpoints with a trained head that would be lost by loading them with one logit.

    Args:
        source (`str`):
            Hub id or folder.
        revision (`str`, *optional*):
            Branch, tag or commit on the Hub.
        trust_remote_code (`bool`, defaults to `False`):
            Whether the configuration may run code from the Hub.

    Raises:
        ValueError: for a sequence classifier with a number of labels other than one, and for a bare adapter.
    """
    if is_adapter(source):
        raise ValueError(
            f"`{source}` holds a PEFT adapter, not a model. Load its base, pass that and the folder to "
            "`PeftModel.from_pretrained(base, folder, is_trainable=True)`, and pass the result."
        )
    config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
    if has_other_head(config):
        raise ValueError(
            f"`{source}` is a trained classifier with {config.num_labels} labels. {_REMEDY}, or set "
            '`model_init_kwargs={"ignore_mismatched_sizes": True}`.'
        )


def has_other_head(config: PretrainedConfig) -> bool:
    """Whether a checkpoint is a sequence classifier with a number of labels other than one."""
    is_classifier = any(name.endswith("ForSequenceClassification") for name in config.architectures or ())
    return is_classifier and config.num_labels != 1


def empty_classifier(source: str, *, revision: str | None = None, trust_remote_code: bool = False) -> PreTrainedModel:
    """Return the classifier that `source` is loaded as, without its weights (on the `meta` device)."""
    config = AutoConfig.from_pretrained(source, revision=revision, num_labels=1, trust_remote_code=trust_remote_code)
    with torch.device("meta"):
        return AutoModelForSequenceClassification.from_config(config, trust_remote_code=trust_remote_code)


def check_classifier(model: PreTrainedModel | PeftModel) -> None:
    """
    Check that a model has a head with one logit.

    Raises:
        ValueError: if `model` has no head, or a number of logits other than one.
    """
    if not score_head_modules(model):
        raise ValueError(
            f"`{type(model).__name__}` has no classification head; load the model with "
            "`AutoModelForSequenceClassification.from_pretrained(..., num_labels=1)`."
        )
    if model.config.num_labels != 1:
        raise ValueError(f"The model has {model.config.num_labels} logits (`config.num_labels`). {_REMEDY}.")


def add_trained_head(peft_config: PeftConfig, model: PreTrainedModel) -> PeftConfig:
    """
    Return a copy of `peft_config` that also trains and saves the whole head of `model`.

    Raises:
        ValueError: if this kind of adapter does not support it.
    """
    if "modules_to_save" not in vars(peft_config):
        raise ValueError(
            f"`{type(peft_config).__name__}` cannot train a head in addition to the adapter (it has no `modules_to_save`), so "
            "that the scores would stay random; use e.g. `LoraConfig`."
        )
    peft_config = copy.deepcopy(peft_config)
    saved = list(peft_config.modules_to_save or ())
    peft_config.modules_to_save = saved + [name for name in score_head_modules(model) if name not in saved]
    return peft_config


def is_head_trained(model: PreTrainedModel | PeftModel) -> bool:
    """Whether any weight of the head is trained."""
    classifier = classifier_of(model)
    return any(
        parameter.requires_grad
        for name in score_head_modules(model)
        for parameter in classifier.get_submodule(name).parameters()
    )


def checked_classifier(model: str | PreTrainedModel | PeftModel, args: RewardConfig) -> PreTrainedModel:
    """Return the classifier to train, without its weights if TRL will load them."""
    if not isinstance(model, str):
        check_classifier(model)
        return model
    settings: dict[str, Any] = {"trust_remote_code": args.trust_remote_code, **(args.model_init_kwargs or {})}
    origin = {key: settings[key] for key in ("revision", "trust_remote_code") if key in settings}
    if not settings.get("ignore_mismatched_sizes", False):
        check_classifier_source(model, **origin)
    return empty_classifier(model, **origin)
