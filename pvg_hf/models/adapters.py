"""Adapters, as a recipe's section `lora` describes them, and on the base that they were trained on."""

from pathlib import Path

from peft import LoraConfig as PeftLoraConfig
from peft import PeftConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from peft.utils import load_peft_weights
from safetensors import safe_open
from transformers import PreTrainedModel

from pvg_hf.config.sections import LoraConfig
from pvg_hf.models.sources import check_weights

ADAPTER_WEIGHTS = "adapter_model.safetensors"


def lora_settings(
    config: LoraConfig, task_type: str, *, revision: str | None, head: list[str] | None = None
) -> PeftLoraConfig:
    """
    PEFT's settings for the section `lora` of a player.

    Args:
        config ([`~pvg_hf.config.sections.LoraConfig`]):
            The section.
        task_type (`str`):
            What the base is, in PEFT's words: `CAUSAL_LM` or `SEQ_CLS`.
        revision (`str`, *optional*):
            Hub revision of the base, which is saved with the adapters.
        head (`list[str]`, *optional*):
            Names of modules that get no adapter and are trained and saved whole.
    """
    return PeftLoraConfig(
        revision=revision,
        r=config.r,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=config.target_modules,
        exclude_modules=head,
        modules_to_save=head,
        task_type=task_type,
    )


def attach_adapter(
    base: PreTrainedModel, folder: str | Path, adapter: PeftConfig, *, is_trainable: bool = False
) -> PeftModel:
    """
    A base with the adapter that lies in `folder`.

    Args:
        base ([`~transformers.PreTrainedModel`]):
            What `adapter` names as its base.
        folder (`str` or `Path`):
            Of the adapter.
        adapter ([`~peft.PeftConfig`]):
            As [`~pvg_hf.models.sources.read_adapter`] gives it.
        is_trainable (`bool`, defaults to `False`):
            Whether it goes on being trained.

    Raises:
        ValueError: if its weights are no safetensors, or it was trained on another model: a layer is missing, is one too
            many, or has another shape. (PEFT takes an adapter with other layers for none at all there, with a warning.)
    """
    check_weights(folder, ADAPTER_WEIGHTS)
    misfit = f"The adapter in `{folder}` does not fit its base `{adapter.base_model_name_or_path}`"
    remedy = "Name the model that it was trained on in `base_model_name_or_path` of its `adapter_config.json`."
    try:
        model = PeftModel.from_pretrained(base, folder, config=adapter, is_trainable=is_trainable)
    except (RuntimeError, ValueError) as err:  # of shapes, and of modules that are not there
        *_, last = str(err).strip().splitlines()
        raise ValueError(f"{misfit}: {last.strip()} {remedy}") from err
    with safe_open(Path(folder) / ADAPTER_WEIGHTS, framework="pt") as file:
        others = set(file.keys()) ^ set(get_peft_model_state_dict(model, save_embedding_layers=False))
    if others:
        raise ValueError(f"{misfit}: only one of the two has `{min(others)}` ({len(others)} in all). {remedy}")
    return model


def take_over_adapter(model: PeftModel, folder: str | Path) -> None:
    """
    Put the weights of the adapter that lies in `folder` into that of `model`, which has the same shape.

    Raises:
        ValueError: if they are no safetensors.
    """
    check_weights(folder, ADAPTER_WEIGHTS)
    set_peft_model_state_dict(model, load_peft_weights(str(folder), device="cpu"))
