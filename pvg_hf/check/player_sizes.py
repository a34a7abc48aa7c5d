"""Configurations and tokenizers of players, and their sizes and memory, without loading weights."""

from dataclasses import dataclass, field
from math import ceil

import torch
from peft import PeftModel, get_peft_model
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import LoraConfig, PlayerConfig, ProverConfig, VerifierConfig
from pvg_hf.core.hub_access import find_refusal
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.kv_cache import bytes_per_row, cache_width, rows_that_fit
from pvg_hf.models.prover_model import lora_for_prover
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.token_flops import flops_per_token
from pvg_hf.models.verifier_model import lora_for_verifier
from pvg_hf.run.layout import RunFolder
from pvg_hf.trainers.ppo.critic import ADAPTER, VERIFIER

LORA_BYTES = 4  # bytes of an adapter's weight: adapters are in float32 for any base

# NF4: one 8-bit constant per 64 weights, and one 32-bit constant per 256 of these.
QUANTIZED_BYTES = (4 + 8 / 64 + 32 / (64 * 256)) / 8

TILE = (4096, 32768)  # tokens and words of the vocabulary whose logits TRL's GRPO computes at once


@dataclass(frozen=True)
class PlayerSize:
    """Size of a player, and the memory in bytes that it takes."""

    num_parameters: int  # including an adapter's
    num_trained: int
    forward_flops: int  # per token
    training_flops: int  # per token
    num_layers: int
    hidden_size: int
    vocab_size: int
    cache_width: int  # numbers in the KV cache per token and layer: keys and values of all key-value heads
    max_positions: int | None  # maximum input length in tokens, if the configuration states it
    weight_bytes: int  # of a frozen weight that is not quantised, 2 or 4; layers compute in this precision
    num_quantized: int  # weights in 4 bits
    trained_bytes: int  # of a trained weight
    kept_bytes: int  # of activations that a layer keeps for the backward pass, per token
    passing_bytes: int  # of a layer's gradients in the backward pass, per token
    is_mixed: bool  # trained with automatic mixed precision: layers compute in 16 bits, whatever the weights are in
    config: PretrainedConfig | None = field(default=None, compare=False)

    @property
    def frozen_bytes(self) -> float:
        """Memory of the weights."""
        whole = self.num_parameters - self.num_quantized
        return whole * self.weight_bytes + self.num_quantized * QUANTIZED_BYTES

    @property
    def training_bytes(self) -> float:
        """
        Memory of the weights, and of the gradients and Adam's two averages of the trained ones.

        Mixed precision adds a copy of the trained weights in 16 bits, unless an adapter is trained.
        """
        copy = 2 if self.is_mixed and self.num_trained == self.num_parameters else 0
        return self.frozen_bytes + self.num_trained * (4 * self.trained_bytes - self.weight_bytes + copy)

    def reading_bytes(self, num_tokens: float) -> float:
        """Memory of a batch that is read without gradients."""
        return 4 * num_tokens * self.hidden_size * self.weight_bytes

    def backward_bytes(
        self, rows: int, num_tokens: float, *, recomputes: bool, num_logits: float = 0, is_tiled: bool = False
    ) -> float:
        """
        Memory of a forward and a backward pass over `rows` texts, padded to `num_tokens` tokens.

        Args:
            num_logits: Number of positions of a text at which the loss needs logits.
            recomputes: Whether activations are recomputed in the backward pass instead of being stored.
            is_tiled: Whether the loss computes logits in tiles, as GRPO's, and never holds all of them.
        """
        inputs = self.num_layers * self.hidden_size * self.weight_bytes  # of layers, which are recomputed from them
        kept = inputs + self.kept_bytes if recomputes else self.num_layers * self.kept_bytes
        logits = 2 * 4 * rows * num_logits * self.vocab_size  # in float32, and their gradient
        if is_tiled:
            logits = 4 * min(rows * num_logits, TILE[0]) * min(self.vocab_size, TILE[1])
        return rows * num_tokens * (kept + self.passing_bytes) + logits

    def loop_bytes(self, rows: float, num_tokens: float) -> float:
        """
        Memory of `rows` texts that the package's own loop writes: keys and values at full length, and the logits of a
        token.
        """
        cached = self.num_layers * self.cache_width * self.weight_bytes  # bytes of a token's keys and values
        return rows * (num_tokens * cached + 2 * 4 * self.vocab_size)  # logits in float32, and their softmax

    def static_cache_bytes(self, num_rows: float, num_tokens: int, free_bytes: float) -> float:
        """
        Memory of the cache of a compiled `generate` for `num_rows` texts, of which as many as fit are written at once.
        """
        assert self.config is not None
        dtype = {2: torch.bfloat16, 4: torch.float32}[self.weight_bytes]
        fitting = rows_that_fit(self.config, dtype, num_tokens, int(max(0, free_bytes)))
        rows = min(fitting, 1 << (max(1, ceil(num_rows)) - 1).bit_length())
        return rows * bytes_per_row(self.config, dtype, num_tokens)


def read_sizes(recipe: Recipe, hardware: Hardware) -> dict[str, PlayerSize | None]:
    """Sizes of the players and of PPO's `critic`; `None` for those whose configuration is not known."""
    sizes = {name: read_player_size(config, name, hardware) for name, config in recipe.players.items()}
    return {**sizes, "critic": read_critic_size(recipe, hardware)} if recipe.prover.has_critic else sizes


def read_player_size(config: PlayerConfig, player: str, hardware: Hardware) -> PlayerSize | None:
    """
    Size of the prover or verifier, adapter included; `None` if its configuration is neither on this machine nor on the
    Hub.

    Raises `ValueError`, `StrictDataclassError` if the configuration contradicts itself, or LoRA finds none of its
        modules.
    """
    return measure_size(
        read_model_config(config, player),
        has_lm_head=_has_lm_head(config),
        dtype=hardware.dtype(config.dtype, is_trained=config.lora is None),
        lora=config.lora,
        is_quantized=config.quantization == "4bit",
        is_mixed=hardware.computes_in_bfloat16(config.dtype),
    )


def _has_lm_head(config: PlayerConfig) -> bool:
    return not (isinstance(config, VerifierConfig) and config.traits.has_score_head)


def read_model_config(config: PlayerConfig, player: str) -> PretrainedConfig | None:
    """Find the configuration of a player's initial weights; `None` if neither this machine nor the Hub has it."""
    scratch = config.scratch
    if scratch:  # its trained tokenizer may have fewer tokens than `vocab_size`
        settings = {"tie_word_embeddings": True, **scratch.config, "vocab_size": scratch.vocab_size}
        return AutoConfig.for_model(scratch.model_type, **settings)
    return find_config(resolve_model(config.model, player), config.revision)


def read_pretraining_flops(config: PlayerConfig, player: str) -> float | None:
    """
    Operations of the pretraining of a player's initial weights, if known: `pretraining_flops` of their configuration,
    or those of a well-known model of this name. Supervised training of the weights adds little.
    """
    stored = None if config.scratch else read_model_config(config, player)
    if stored is None:
        return None
    name = config.model.rstrip("/").rpartition("/")[2]
    known = [flops for model, flops in _PRETRAINING.items() if name == model or name.startswith(f"{model}-")]
    return stored.to_dict().get("pretraining_flops") or next(iter(known), None)


_BILLION, _TRILLION = 1e9, 1e12

# 6 operations per parameter and token (Kaplan et al. 2020), by the models' cards.
_PRETRAINING = {
    name: 6 * parameters * _BILLION * tokens * _TRILLION
    for name, parameters, tokens in (
        ("Qwen2.5-0.5B", 0.49, 18),
        ("Qwen2.5-1.5B", 1.54, 18),
        ("Qwen2.5-3B", 3.09, 18),
        ("Qwen2.5-7B", 7.61, 18),
        ("Qwen2.5-Coder-0.5B", 0.49, 18 + 5.5),  # continued from Qwen2.5
        ("Qwen2.5-Coder-1.5B", 1.54, 18 + 5.5),
        ("Qwen3-0.6B", 0.6, 36),
        ("Qwen3-1.7B", 1.7, 36),
        ("SmolLM2-135M", 0.135, 2),
        ("SmolLM2-360M", 0.362, 4),
        ("SmolLM2-1.7B", 1.71, 11),
        ("Llama-3.2-1B", 1.23, 9),
        ("Llama-3.2-3B", 3.21, 9),
    )
}


def measure_size(
    config: PretrainedConfig | None,
    *,
    has_lm_head: bool,
    dtype: torch.dtype,
    lora: LoraConfig | None = None,
    is_quantized: bool = False,
    is_mixed: bool = False,
) -> PlayerSize | None:
    """
    Build a model without its weights and count them; `None` if its configuration is unknown.

    It is a language model or has a head of one logit. `dtype` is that of the weights that are not quantised. An
    adapter is all that is trained; `is_quantized` says whether the matrices below it are stored in 4 bits. `is_mixed`
    says whether training computes in bfloat16.

    The activations are those of a layer of the Llama kind, counted in what autograd saves
    (tests/check/test_activations.py):
    norms and residuals in float32 (32 bytes per hidden unit, 25 if only an adapter needs gradients), and the
    projections in the type of the computation, of which the feed-forward part keeps four of its inner width.
    """
    if config is None:
        return None
    model = _empty_player(config, has_lm_head, lora)
    text = config.get_text_config()
    width = cache_width(config)
    inner = text.to_dict().get("intermediate_size") or 4 * text.hidden_size
    number_bytes = 2 if is_mixed else 4
    return PlayerSize(
        num_parameters=model.num_parameters(),
        num_trained=model.num_parameters(only_trainable=True),
        forward_flops=flops_per_token(model),
        training_flops=flops_per_token(model, is_trained=True),
        num_layers=text.num_hidden_layers,
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        cache_width=width,
        max_positions=text.to_dict().get("max_position_embeddings"),
        weight_bytes=dtype.itemsize,
        num_quantized=_num_linear(model) if is_quantized else 0,
        trained_bytes=LORA_BYTES if lora else dtype.itemsize,
        kept_bytes=(25 if lora else 32) * text.hidden_size + round(number_bytes * (4 * inner + 1.5 * width)),
        passing_bytes=8 * inner,
        is_mixed=is_mixed,
        config=config,
    )


def find_config(source: str, revision: str | None) -> PretrainedConfig | None:
    """Find the configuration of a model on this machine, else on the Hub; `None` if neither has it."""
    try:
        return AutoConfig.from_pretrained(source, revision=revision, local_files_only=True, trust_remote_code=False)
    except OSError:
        if find_refusal(source, revision) is not None:
            return None
    return AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)


def tokenizer_source(recipe: Recipe, player: str) -> tuple[str, str | None]:
    """Folder or Hub id, and revision, of a player's tokenizer; that of a new model is made with its weights."""
    config = recipe.player(player)
    if config.scratch:
        return str(RunFolder.of(recipe).models / player), config.revision
    return resolve_model(config.model, player), config.revision


def find_tokenizer(source: str, revision: str | None) -> PreTrainedTokenizerBase | None:
    """Find a tokenizer on this machine, else on the Hub; `None` if neither has it, e.g. if it is not trained yet."""
    try:
        return AutoTokenizer.from_pretrained(source, revision=revision, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):  # ValueError: there is a configuration of the model, but no tokenizer
        if find_refusal(source, revision) is not None:
            return None
    return load_tokenizer(source, revision)


def read_adapted_player(config: PlayerConfig, player: str) -> PeftModel | None:
    """
    Build a player with its adapter, without weights; `None` if it has no adapter or its configuration is unknown.
    """
    stored = read_model_config(config, player)
    if stored is None or config.lora is None:
        return None
    model = _empty_player(stored, _has_lm_head(config), config.lora)
    assert isinstance(model, PeftModel)
    return model


def _empty_player(config: PretrainedConfig, has_lm_head: bool, lora: LoraConfig | None) -> PreTrainedModel | PeftModel:
    config.num_labels = 1
    architecture = AutoModelForCausalLM if has_lm_head else AutoModelForSequenceClassification
    with torch.device("meta"):
        model = architecture.from_config(config)
    if lora is None:
        return model
    adapter = lora_for_prover(lora) if has_lm_head else lora_for_verifier(lora, model)
    return get_peft_model(model, adapter, low_cpu_mem_usage=True)


def _num_linear(model: PreTrainedModel | PeftModel) -> int:
    """Number of weights that bitsandbytes quantises: the frozen matrices between embedding and head."""
    head = model.get_output_embeddings()
    return sum(
        module.weight.numel()
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module is not head and not module.weight.requires_grad
    )


def has_adapter_critic(config: ProverConfig) -> bool:
    """Whether the critic is an adapter with a head on the prover's base, explicitly or by default."""
    critic = config.ppo_settings.critic
    return critic == ADAPTER or (critic is None and config.lora is not None)


def read_critic_size(recipe: Recipe, hardware: Hardware) -> PlayerSize | None:
    """
    Size of PPO's critic; `None` if its configuration is neither on this machine nor on the Hub.

    A critic that is not an adapter is fully fine-tuned in float32.
    """
    prover, verifier, critic = recipe.prover, recipe.verifier, recipe.prover.ppo_settings.critic
    if has_adapter_critic(prover):
        return read_player_size(prover, "prover", hardware)
    if critic is None:
        config, has_lm_head = read_model_config(prover, "prover"), True
    elif critic == VERIFIER:
        config, has_lm_head = read_model_config(verifier, "verifier"), _has_lm_head(verifier)
    else:
        config, has_lm_head = find_config(resolve_model(critic, "verifier"), None), False
    is_mixed = hardware.computes_in_bfloat16(prover.dtype)
    return measure_size(config, has_lm_head=has_lm_head, dtype=torch.float32, is_mixed=is_mixed)


def critic_bytes(config: ProverConfig, size: PlayerSize) -> float:
    """
    Memory of the critic's weights, gradients and Adam's averages in bytes, without a base shared with the prover.
    """
    return size.num_trained * 4 * LORA_BYTES if has_adapter_critic(config) else size.training_bytes
