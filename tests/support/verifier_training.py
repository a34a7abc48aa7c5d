"""Helpers for tests of `NoisyRewardTrainer`: verifiers of a few words, training pairs, and the trainer."""

import math

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
)

from pvg_hf.trainers.reward.columns import PairCollator
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

WORDS = ["[PAD]", "[UNK]", "[EOS]", "[CLS]", "[SEP]", "good", "bad", *(f"w{i}" for i in range(9))]
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def make_tokenizer(**special) -> PreTrainedTokenizerFast:
    """A tokenizer with one token for each word; with a `sep_token` a text is framed as encoders read it."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if "sep_token" in special:
        ends = [("[CLS]", WORDS.index("[CLS]")), ("[SEP]", WORDS.index("[SEP]"))]
        tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{"pad_token": "[PAD]", "unk_token": "[UNK]", **special}
    )


PADDINGS = {
    "a padding token": {"pad_token": "[PAD]"},
    "on the left": {"pad_token": "[PAD]", "padding_side": "left"},
    "the end token": {"pad_token": "[EOS]"},
    "the end token on the left": {"pad_token": "[EOS]", "padding_side": "left"},
    "no padding token": {"pad_token": None},
}
"""Arguments of `make_tokenizer` for the ways in which models' tokenizers pad."""


def llama(num_labels: int = 1) -> LlamaForSequenceClassification:
    """A decoder with seeded weights."""
    torch.manual_seed(0)
    ids = {"pad_token_id": 0, "eos_token_id": 2, "bos_token_id": None}
    return LlamaForSequenceClassification(
        LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=32, num_labels=num_labels, **SIZES, **ids)
    )


def bert() -> BertForSequenceClassification:
    """An encoder whose head is one layer."""
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(vocab_size=len(WORDS), num_labels=1, pad_token_id=0, **SIZES))


def modern_bert() -> ModernBertForSequenceClassification:
    """An encoder whose head has a layer before the classifier."""
    torch.manual_seed(0)
    ids = {"pad_token_id": 0, "bos_token_id": 3, "cls_token_id": 3, "eos_token_id": 4, "sep_token_id": 4}
    return ModernBertForSequenceClassification(
        ModernBertConfig(vocab_size=len(WORDS), num_labels=1, attn_implementation="sdpa", **SIZES, **ids)
    )


def text_pairs(num_pairs: int) -> Dataset:
    """Pairs of texts; the chosen one is `good`, and the longer rejected one `bad`."""
    rows = [{"chosen": f"w{i % 9} good", "rejected": f"w{i % 9} w{i % 5} bad"} for i in range(num_pairs)]
    return Dataset.from_list(rows)


def token_pairs(num_pairs: int, **columns) -> Dataset:
    """Pairs of tokens, with further columns: every pair differs, and all sequences are of one length."""
    rows = [
        {"chosen_ids": [7 + i % 9, 7 + i % 7, 5, 2], "rejected_ids": [7 + i % 9, 7 + i % 7, 6, 2]}
        for i in range(num_pairs)
    ]
    return Dataset.from_list(
        [{**row, **{key: values[i] for key, values in columns.items()}} for i, row in enumerate(rows)]
    )


def keys_of(num_pairs: int) -> torch.Tensor:
    """The keys by which the trainer identifies the solutions of `token_pairs`."""
    return PairCollator(lambda _: {})([{"row_index": 0, **row} for row in token_pairs(num_pairs)])["keys"]


def verifier_trainer(
    tmp_path, dataset, tokenizer, model=None, *, peft_config=None, eval_dataset=None, callbacks=None, **settings
) -> NoisyRewardTrainer:
    """A silent trainer on the CPU, of a new `llama` unless a model is given; `settings` are those of its arguments."""
    settings = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no", **settings}
    return NoisyRewardTrainer(
        model or llama(),
        args=NoisyRewardConfig(str(tmp_path / "out"), logging_steps=1, learning_rate=1e-2, **settings),
        train_dataset=dataset,
        eval_dataset=eval_dataset,
        processing_class=tokenizer,
        peft_config=peft_config,
        callbacks=callbacks,
    )


def flips(trainer) -> list[float]:
    """Share of flipped labels of every logged step."""
    return [entry["flipped"] for entry in trainer.state.log_history if "flipped" in entry]


def softplus(value: float) -> float:
    """log(1 + exp(value)), the Bradley-Terry loss of a difference of -value."""
    return math.log1p(math.exp(value))
