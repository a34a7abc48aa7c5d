"""Exports a trained player as one checkpoint of full weights, for servers that do not support adapters."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import PreTrainedModel

from pvg_hf.core.disk_names import CALIBRATION
from pvg_hf.models.adapters import attach_adapter, merge_into_base
from pvg_hf.models.hardware import moved
from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.quantization import is_quantized, saved_quantization
from pvg_hf.models.score_head import set_padding
from pvg_hf.models.sources import is_adapter, load_tokenizer, read_adapter
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_classifier

# The threshold in `calibration.json` applies to a verifier's scores, and bfloat16 shifts them by about 0.02.
DTYPES = {"prover": torch.bfloat16, "verifier": torch.float32}


def export_merged(source: Path, output: Path, *, player: str, dtype: torch.dtype | None = None) -> None:
    """
    Write a player as full weights, with its adapter merged.

    The weights are merged in float32 and rounded once. If the base was held in 4 bits, its dequantised weights are
    used, because the adapter was trained on them. The result is the player that was evaluated, up to rounding, and
    four times as large as its base in memory.

    Args:
        source: Folder of a round's prover or verifier: full weights or an adapter.
        output: Folder to create. A verifier's input template and calibration are stored in it too, and its tokenizer
            appends the end token itself.
        dtype: Type of the written weights; by default bfloat16 for a prover and float32 for a verifier.
    Raises `ValueError` if `output` exists and is not empty.
    """
    if output.exists() and any(output.iterdir()):
        raise ValueError(f"`{output}` is not empty; name a new folder, so that nothing is overwritten.")
    moved(_load_merged(source, player), dtype or DTYPES[player]).save_pretrained(output)
    tokenizer = load_tokenizer(source)
    if player == "verifier":
        VerifierInput.load(source).save_with(tokenizer, output)
    else:
        tokenizer.save_pretrained(output)
    if (source / CALIBRATION).exists():
        shutil.copy(source / CALIBRATION, output / CALIBRATION)


def _load_merged(source: Path, player: str) -> PreTrainedModel:
    """Load the player in float32, with its adapter merged."""
    is_classifier = player == "verifier" and VerifierInput.load(source).likelihood_scale is None
    load: Callable[..., PreTrainedModel] = load_classifier if is_classifier else load_causal_lm
    if not is_adapter(source):
        return load(str(source))
    adapter = read_adapter(source, player)
    base = load(adapter.base_model_name_or_path, revision=adapter.revision, quantization=saved_quantization(source))
    if is_quantized(base):
        base = base.dequantize()
    if is_classifier:
        set_padding(base, load_tokenizer(source))
    return merge_into_base(attach_adapter(base, source, adapter))
