"""A language model made from a configuration, with a tokenizer trained on the task's own texts."""

from collections.abc import Iterable

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from pvg_hf.config.sections import ScratchConfig

PAD, END = "<pad>", "</s>"


def make_model(config: ScratchConfig, texts: Iterable[str], seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
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
        ValueError: if the configuration does not know an argument of the recipe, or the architecture is unknown.
    """
    tokenizer = train_tokenizer(texts, config.vocab_size)
    settings = {"tie_word_embeddings": True, **config.config, "vocab_size": len(tokenizer)}
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    model_config = AutoConfig.for_model(config.model_type, **settings, **ids)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(model_config), tokenizer


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
