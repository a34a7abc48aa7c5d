"""Where a player's initial weights come from."""

from importlib.resources import files
from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

PACKAGED = {"prover": "arithmetic-prover", "verifier": "arithmetic-verifier"}


def resolve_model(model: str, player: str) -> str:
    """A Hub id or folder as it is; `arithmetic` as the folder of the packaged model of `player`."""
    if model != "arithmetic":
        return model
    return str(files("pvg_hf").joinpath("assets", PACKAGED[player]))


def resolve_dtype(dtype: str) -> torch.dtype:
    """`auto` is bfloat16 on a GPU that computes in it, float32 elsewhere."""
    if dtype != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
    return torch.bfloat16 if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else torch.float32


def load_tokenizer(source: str | Path, revision: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of `source`, with a padding token."""
    tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def is_adapter(folder: str | Path) -> bool:
    """Whether `folder` holds a PEFT adapter rather than full weights."""
    return (Path(folder) / "adapter_config.json").exists()
