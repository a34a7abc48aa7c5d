"""
LoRA adapters: their settings from a recipe's section `lora`, attaching them to a base, and sharing a base between
players.
"""

import copy
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import load_peft_weights
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedModel

from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.score_head import classifier_of
from pvg_hf.models.sources import check_weight_files

ADAPTER_WEIGHTS = "adapter_model.safetensors"


def lora_settings(
    config: LoraConfig, task_type: str, *, revision: str | None, head: list[str] | None = None
) -> PeftLoraConfig:
    """
    Return PEFT's settings for the section `lora` of a player.

    Args:
        task_type: PEFT's name for the kind of base: `CAUSAL_LM` or `SEQ_CLS`.
        revision: Hub revision of the base, which is saved with the adapters.
        head: Names of modules without an adapter that are trained and saved in full.
    """
    return PeftLoraConfig(
        revision=revision,
        r=config.r,
        lora_alpha=config.alpha,  # type: ignore[arg-type]  # PEFT declares an integer and takes any number
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
    Attach the adapter in `folder` to its base.

    Args:
        base: The model that `adapter` names as its base.
        adapter: Its configuration, from [`~pvg_hf.models.sources.read_adapter`].
    Raises `ValueError` if the weights are not safetensors, or the adapter was trained on another model, so that a
    layer
        is missing, superfluous or of another shape. (PEFT itself would only warn, and use no adapter in such a layer.)
    """
    check_weight_files(folder, ADAPTER_WEIGHTS)
    misfit = f"The adapter in `{folder}` does not fit its base `{adapter.base_model_name_or_path}`"
    remedy = "Name the model that it was trained on in `base_model_name_or_path` of its `adapter_config.json`."
    try:
        model = PeftModel.from_pretrained(base, folder, config=adapter, is_trainable=is_trainable)
    except (RuntimeError, ValueError) as err:  # other shapes, or missing modules
        *_, last = str(err).strip().splitlines()
        raise ValueError(f"{misfit}: {last.strip()} {remedy}") from err
    with safe_open(Path(folder) / ADAPTER_WEIGHTS, framework="pt") as file:
        stored = set(file.keys())
    # PEFT also stores the base's weights of embeddings and output layers that have an adapter.
    of_adapter = {name for name in stored if ".base_layer." not in name}
    others = of_adapter ^ set(get_peft_model_state_dict(model, save_embedding_layers=False))
    if others:
        raise ValueError(f"{misfit}: only one of the two has `{min(others)}` ({len(others)} in all). {remedy}")
    return model


def merge_into_base(model: PeftModel) -> PreTrainedModel:
    """
    Merge the adapter of a player into the weights of its base, and return the base.

    If the output layer shares its weight with the embedding, and one of them has an adapter, it first gets a copy, as
    PEFT would change both.
    """
    if has_tied_adapter(model):
        words: Any = model.get_output_embeddings()
        words = words.get_base_layer() if isinstance(words, BaseTunerLayer) else words
        words.weight = nn.Parameter(words.weight.detach().clone(), requires_grad=False)
    return model.merge_and_unload()


def has_tied_adapter(model: PeftModel) -> bool:
    """Whether the embedding or the output layer has an adapter, and both share their weight."""
    embedding, words = model.get_input_embeddings(), model.get_output_embeddings()
    has_adapter = any(isinstance(layer, BaseTunerLayer) for layer in (embedding, words))
    return has_adapter and words is not None and words.weight is embedding.weight


def load_adapter_weights(model: PeftModel, folder: str | Path) -> None:
    """
    Load the weights of the adapter in `folder` into that of `model`, which has the same shape.

    Raises `ValueError` if they are not safetensors.
    """
    check_weight_files(folder, ADAPTER_WEIGHTS)
    set_peft_model_state_dict(model, load_peft_weights(str(folder), device="cpu"))


def share_base(player: PreTrainedModel | PeftModel, other: PreTrainedModel | PeftModel) -> int:
    """
    Make `player` use the frozen base weights of `other`, which has the same base model.

    They remain two models, each with its adapters and head. Moving one to another device later also moves the shared
    weights of the other.

    Args:
        player: A model with or without an adapter; its own copy of the base is released.
        other: The model that keeps its weights. They must not be trained or merged with an adapter while they are
            shared.
    Raises `ValueError` if the bases have no weight in common, or a weight of the same name differs in shape, dtype or
        values.
    """
    kept = _weights_of_base(other)
    shared: dict[int, nn.Parameter] = {}  # keyed by the identity of the parameter that is replaced
    for name, mine in _weights_of_base(player).items():
        if name in kept:
            _check_equal(name, mine, kept[name])
            shared[id(mine)] = kept[name]
    if not shared:
        raise ValueError("The two players have no weight of their bases in common; they are not on the same model.")
    # All modules, because an output layer tied to the embedding is outside the backbone.
    for module in player.modules():
        for attribute, parameter in module._parameters.items():
            module._parameters[attribute] = shared.get(id(parameter), parameter)
    return sum(weight.numel() for weight in shared.values())


def copy_of_body(player: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """
    Copy the modules of a player's base (such as `LlamaModel`) without copying their weights.

    The copy can have its own adapters. Its weights are the same tensors, so nothing is loaded or stored twice.
    """
    # `deepcopy` takes every tensor in `memo` for one that is already copied, and reuses it.
    tensors = {id(tensor): tensor for tensor in (*player.parameters(), *player.buffers())}
    own = copy.deepcopy(player, memo=tensors)
    base: Any = own.unload() if isinstance(own, PeftModel) else own
    return base.base_model


def _weights_of_base(model: PreTrainedModel | PeftModel) -> dict[str, nn.Parameter]:
    """Return the backbone's weights by name, without adapters and the modules that are trained with them."""
    backbone = classifier_of(model).base_model
    adapters = {
        id(child)
        for module in backbone.modules()
        if isinstance(module, BaseTunerLayer)
        for child in _own_modules(module)
    }
    return {
        f"{path}.{attribute}".replace(".base_layer", ""): parameter
        for path, module in backbone.named_modules()
        if id(module) not in adapters
        for attribute, parameter in module._parameters.items()
        if parameter is not None
    }


def _own_modules(layer: Any) -> list[nn.Module]:
    """Return the modules of an adapter's layer, except the wrapped layer and everything in it."""
    base = {id(module) for module in layer.get_base_layer().modules()}
    return [module for module in layer.modules() if id(module) not in base and module is not layer]


def _check_equal(name: str, mine: torch.Tensor, theirs: torch.Tensor) -> None:
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        raise ValueError(
            f"The base's `{name}` is {tuple(mine.shape)} of {mine.dtype} in one player and {tuple(theirs.shape)} of"
            f" {theirs.dtype} in the other; players that share their base need the same model, `dtype` and"
            " `quantization`."
        )
    if not torch.equal(mine.detach().to(theirs.device), theirs.detach()):
        raise ValueError(
            f"The base's `{name}` has other values in one player than in the other; they share a base of the same"
            " weights."
        )
