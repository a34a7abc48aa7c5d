"""Sizes of players, computed from their configurations without loading weights."""

from dataclasses import dataclass, replace

import torch
from peft import get_peft_model
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)

from pvg_hf.config.players import PlayerConfig, ProverConfig, VerifierConfig
from pvg_hf.core.hub_access import is_on_hub
from pvg_hf.game.context import PhaseContext
from pvg_hf.models.prover import lora_for_prover
from pvg_hf.models.sources import resolve_model
from pvg_hf.models.verifier import lora_for_verifier
from pvg_hf.trainers.ppo.critic import ADAPTER, VERIFIER

LORA_BYTES = 4  # bytes of an adapter's weight: adapters are in float32 for any base

QUANTIZED_BYTES = (
    4 + 8 / 64 + 32 / (64 * 256)
) / 8  # NF4: one 8-bit constant per 64 weights, and one 32-bit constant per 256 of these


@dataclass(frozen=True)
class PlayerSize:
    """
    Size of a player.

    Args:
        num_parameters (`int`):
            Number of weights, including an adapter's.
        num_trained (`int`):
            Number of trained weights.
        num_multiplied (`int`):
            Number of weights in matrix products with every token: all except an input embedding that is only looked up.
        num_layers (`int`), hidden_size (`int`), vocab_size (`int`):
            Dimensions of the architecture.
        cache_width (`int`):
            Numbers in the KV cache per token and layer: keys and values of all key-value heads.
        max_positions (`int`, *optional*):
            Maximum input length of the model in tokens, if its configuration states it.
        weight_bytes (`int`):
            Bytes of a frozen weight that is not quantised, 2 or 4; layers compute in this precision.
        num_quantized (`int`):
            Number of weights in 4 bits.
        trained_bytes (`int`):
            Bytes of a trained weight.
    """

    num_parameters: int
    num_trained: int
    num_multiplied: int
    num_layers: int
    hidden_size: int
    vocab_size: int
    cache_width: int
    max_positions: int | None
    weight_bytes: int
    num_quantized: int
    trained_bytes: int

    @property
    def frozen_bytes(self) -> float:
        """Memory of the weights in bytes."""
        whole = self.num_parameters - self.num_quantized
        return whole * self.weight_bytes + self.num_quantized * QUANTIZED_BYTES

    @property
    def training_bytes(self) -> float:
        """Memory of the weights, and of the gradients and Adam's two averages of the trained ones, in bytes."""
        return self.frozen_bytes + self.num_trained * (4 * self.trained_bytes - self.weight_bytes)


def read_player_size(context: PhaseContext, player: str) -> PlayerSize | None:
    """
    Build the player without its weights, on the `meta` device, adapter included.

    Args:
        context ([`PhaseContext`]):
            Of any phase of the round.
        player (`str`):
            `prover` or `verifier`.

    Returns:
        [`PlayerSize`], or `None` if its configuration is neither on this machine nor on the Hub.

    Raises:
        ValueError, StrictDataclassError: if the configuration contradicts itself, or LoRA finds none of its modules.
    """
    recipe = context.recipe
    config: PlayerConfig = {"prover": recipe.prover, "verifier": recipe.verifier}[player]
    model_config = _scratch_config(config) if config.scratch else find_config(config, player)
    if model_config is None:
        return None
    is_prover = player == "prover" or recipe.verifier.is_generative  # a language model
    model = _empty_model(model_config, is_prover)
    if config.lora:
        adapter = lora_for_prover(config.lora) if is_prover else lora_for_verifier(config.lora, model)
        model = get_peft_model(model, adapter, low_cpu_mem_usage=True)
    dtype = context.dtype(player, is_precise=config.lora is None)
    return _measure(model, model_config.get_text_config(), is_prover, dtype.itemsize, config)


def _scratch_config(config: PlayerConfig) -> PretrainedConfig:
    """Configuration of a player with random weights. Its trained tokenizer may have fewer tokens than `vocab_size`."""
    settings = {"tie_word_embeddings": True, **config.scratch.config, "vocab_size": config.scratch.vocab_size}
    return AutoConfig.for_model(config.scratch.model_type, **settings)


def find_config(config: PlayerConfig, player: str) -> PretrainedConfig | None:
    """
    Find the configuration of a player's `model` on this machine, else on the Hub; `None` if neither has it.

    It is a few kilobytes; no weights are downloaded.
    """
    source = resolve_model(config.model, player)
    try:
        return AutoConfig.from_pretrained(
            source, revision=config.revision, local_files_only=True, trust_remote_code=False
        )
    except OSError:
        if not is_on_hub(source, config.revision):
            return None
    return AutoConfig.from_pretrained(source, revision=config.revision, trust_remote_code=False)


def _empty_model(config: PretrainedConfig, is_prover: bool) -> PreTrainedModel:
    with torch.device("meta"):
        if is_prover:
            return AutoModelForCausalLM.from_config(config)
        config.num_labels = 1
        return AutoModelForSequenceClassification.from_config(config)


def _measure(
    model: torch.nn.Module, config: PretrainedConfig, is_prover: bool, weight_bytes: int, player: PlayerConfig
) -> PlayerSize:
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    total = sum(number for number, _ in sizes)
    is_output_too = is_prover and config.tie_word_embeddings
    return PlayerSize(
        num_parameters=total,
        num_trained=sum(number for number, is_trained in sizes if is_trained),
        num_multiplied=total if is_output_too else total - model.get_input_embeddings().weight.numel(),
        num_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        cache_width=_cache_width(config),
        max_positions=config.to_dict().get("max_position_embeddings"),
        weight_bytes=weight_bytes,
        num_quantized=_num_linear(model) if player.quantization == "4bit" else 0,
        trained_bytes=LORA_BYTES if player.lora else weight_bytes,
    )


def _num_linear(model: torch.nn.Module) -> int:
    """Number of weights that bitsandbytes quantises: the frozen matrices between embedding and head."""
    head = model.get_output_embeddings()
    return sum(
        module.weight.numel()
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module is not head and not module.weight.requires_grad
    )


def _cache_width(config: PretrainedConfig) -> int:
    values = config.to_dict()  # not every architecture shares keys and values between heads
    num_heads = config.num_attention_heads
    head_size = values.get("head_dim") or config.hidden_size // num_heads
    return 2 * (values.get("num_key_value_heads") or num_heads) * head_size


def stands_on_prover(config: ProverConfig) -> bool:
    """Whether the critic is an adapter with a head on the prover's base, explicitly or by default."""
    critic = config.ppo_settings.critic
    return critic == ADAPTER or (critic is None and config.lora is not None)


def read_critic_size(context: PhaseContext) -> PlayerSize | None:
    """
    Size of PPO's critic, by the same method as [`read_player_size`].

    A critic that is not an adapter is fully fine-tuned in float32.

    Returns:
        [`PlayerSize`], or `None` if its configuration is not on this machine.
    """
    recipe = context.recipe
    if stands_on_prover(recipe.prover):
        return read_player_size(context, "prover")
    whole = {"lora": None, "quantization": "none", "dtype": "float32"}
    critic = recipe.prover.ppo_settings.critic
    if critic is None:
        own = replace(recipe, prover=replace(recipe.prover, **whole))
        return read_player_size(replace(context, recipe=own), "prover")
    if critic == VERIFIER:
        own = replace(recipe, verifier=replace(recipe.verifier, **whole, shares_base=False))
    else:
        own = replace(recipe, verifier=VerifierConfig(model=critic, **whole))
    return read_player_size(replace(context, recipe=own), "verifier")


def critic_bytes(config: ProverConfig, size: PlayerSize) -> float:
    """Memory of the critic's weights, gradients and Adam's averages in bytes, without a base shared with the prover."""
    return size.num_trained * 4 * LORA_BYTES if stands_on_prover(config) else size.training_bytes
