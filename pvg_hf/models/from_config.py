"""Makes a language model from a configuration, and trains its tokenizer on the task's texts."""

import inspect
from collections.abc import Iterable, Iterator

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from pvg_hf.config.player_sections import ScratchConfig
from pvg_hf.core.extensions import suggest

PAD, END = "<pad>", "</s>"

_TOKENIZER_KEYS = ("vocab_size", "pad_token_id", "eos_token_id", "bos_token_id")


def make_model(
    config: ScratchConfig, texts: Iterable[str], seed: int
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """
    Make a model with random weights, and its tokenizer.

    Args:
        texts: Training texts of the byte-level BPE tokenizer: training problems and their references, never test
            problems.
    Raises `ValueError` if the architecture is unknown, is not a causal language model, or does not have an argument
        that the recipe sets.
    """
    if mistakes := list(scratch_mistakes(config)):
        raise ValueError(" ".join(mistakes))
    tokenizer = train_tokenizer(texts, config.vocab_size)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    settings = {"tie_word_embeddings": True, **config.config, "vocab_size": len(tokenizer), **ids}
    model_config = CONFIG_MAPPING[config.model_type](**settings)
    # The global generator is restored, so that making a model does not change later draws.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(model_config, trust_remote_code=False), tokenizer


def scratch_mistakes(config: ScratchConfig) -> Iterator[str]:
    """Yield a message for each argument that is unknown to transformers, which would otherwise ignore it silently."""
    if config.model_type not in CONFIG_MAPPING:
        yield f"Unknown architecture `{config.model_type}`. {suggest(config.model_type, CONFIG_MAPPING)}"
        return
    config_class = CONFIG_MAPPING[config.model_type]
    known = {*inspect.signature(config_class).parameters, *config_class.attribute_map}.difference(_TOKENIZER_KEYS)
    for key in config.config:
        if key in _TOKENIZER_KEYS:
            yield f"`{key}` in `scratch.config` is determined by the tokenizer; remove it."
        elif key not in known:
            yield (
                f"Unknown argument `{key}` of the architecture `{config.model_type}`. {suggest(key, sorted(known))}"
            )


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer with one token per digit."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    # All 256 bytes are in the vocabulary, so that no text is ever unknown.
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[PAD, END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, padding_side="left")
