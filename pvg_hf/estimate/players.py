"""How large a player is, from its configuration alone."""

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

LORA_BYTES = 4  # adapters are kept in float32 whatever the base is in

QUANTIZED_BYTES = (
    4 + 8 / 64 + 32 / (64 * 256)
) / 8  # NF4: a constant of 8 bits to 64 weights, one of 32 to 256 of those


@dataclass(frozen=True)
class PlayerSize:
    """
    Args:
        num_parameters (`int`):
            Weights, an adapter's included.
        num_trained (`int`):
            Of these, the ones that are trained.
        num_multiplied (`int`):
            Of these, the ones that every token is multiplied with: all but an input embedding that only looks up.
        num_layers (`int`), hidden_size (`int`), vocab_size (`int`):
            Of the architecture.
        cache_width (`int`):
            Numbers that generation keeps per token and layer: keys and values of all key-value heads.
        max_positions (`int`, *optional*):
            Longest input that the model was made for, in tokens, where its configuration says so.
        weight_bytes (`int`):
            Bytes of a frozen weight that is not quantised, 2 or 4; layers compute in numbers of this size.
        num_quantized (`int`):
            Weights that are held in 4 bits.
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
        """Memory of the weights alone."""
        whole = self.num_parameters - self.num_quantized
        return whole * self.weight_bytes + self.num_quantized * QUANTIZED_BYTES

    @property
    def training_bytes(self) -> float:
        """Memory of the weights, and of gradients and Adam's two averages of those that are trained."""
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
        [`PlayerSize`], or `None` if its configuration is to be had neither on this machine nor from the Hub.

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
    """With the recipe's `vocab_size`, which the trained tokenizer may stay below."""
    settings = {"tie_word_embeddings": True, **config.scratch.config, "vocab_size": config.scratch.vocab_size}
    return AutoConfig.for_model(config.scratch.model_type, **settings)


def find_config(config: PlayerConfig, player: str) -> PretrainedConfig | None:
    """
    The configuration of a player's `model` from this machine, else from the Hub (a few kilobytes, no weights); `None` if
    neither has it.
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
    """Weights of the frozen matrices between embedding and head, which are those that bitsandbytes quantises."""
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
    """Whether the critic is an adapter and a head on the prover's base, be it by default."""
    critic = config.ppo_settings.critic
    return critic == ADAPTER or (critic is None and config.lora is not None)


def read_critic_size(context: PhaseContext) -> PlayerSize | None:
    """
    As [`read_player_size`]; a critic that is no adapter is trained whole, in float32.

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
    """Of its weights, gradients and Adam's averages; the prover's base is counted with the prover."""
    return size.num_trained * 4 * LORA_BYTES if stands_on_prover(config) else size.training_bytes
