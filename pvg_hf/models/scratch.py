"""A language model made from a configuration, with a tokenizer trained on the task's own texts."""

import inspect
from collections.abc import Iterable
from difflib import get_close_matches

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from pvg_hf.config.sections import ScratchConfig

PAD, END = "<pad>", "</s>"
_OF_THE_TOKENIZER = ("vocab_size", "pad_token_id", "eos_token_id", "bos_token_id")


def make_model(
    config: ScratchConfig, texts: Iterable[str], seed: int
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """
    A model with random weights and its tokenizer.

    Args:
        config ([`ScratchConfig`]):
            Architecture and size of the vocabulary.
        texts (`Iterable[str]`):
            What the byte-level BPE is trained on: training problems and their references, never test problems.
        seed (`int`):
            Of the weights.

    Raises:
        ValueError: if the configuration does not know an argument of the recipe, or the architecture is unknown or no
            causal language model.
    """
    _check_config(config)
    tokenizer = train_tokenizer(texts, config.vocab_size)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    settings = {"tie_word_embeddings": True, **config.config, "vocab_size": len(tokenizer), **ids}
    model_config = CONFIG_MAPPING[config.model_type](**settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(model_config), tokenizer


def _check_config(config: ScratchConfig) -> None:
    """transformers keeps unknown arguments of a configuration without a word."""
    if config.model_type not in CONFIG_MAPPING:
        raise ValueError(_unknown(f"architecture `{config.model_type}`", config.model_type, list(CONFIG_MAPPING)))
    config_class = CONFIG_MAPPING[config.model_type]
    known = [*inspect.signature(config_class).parameters, *config_class.attribute_map]
    for key in config.config:
        if key in _OF_THE_TOKENIZER:
            raise ValueError(f"`{key}` in `scratch.config` is the tokenizer's to set; leave it out.")
        if key not in known:
            raise ValueError(_unknown(f"argument `{key}` of the architecture `{config.model_type}`", key, known))


def _unknown(what: str, name: str, known: list[str]) -> str:
    return f"Unknown {what}. Did you mean `{get_close_matches(name, known, n=1, cutoff=0)[0]}`?"


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer; every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[PAD, END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, padding_side="left")
