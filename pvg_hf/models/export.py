"""A trained player as one checkpoint of full weights, for servers that take no adapters."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import PreTrainedModel

from pvg_hf.models.adapters import attach_adapter
from pvg_hf.models.prover import load_causal_lm
from pvg_hf.models.quantization import is_quantized, saved_quantization
from pvg_hf.models.sources import is_adapter, load_tokenizer, read_adapter
from pvg_hf.models.verifier import load_classifier
from pvg_hf.models.verifier_input import VerifierInput

LOADERS: dict[str, Callable[..., PreTrainedModel]] = {"prover": load_causal_lm, "verifier": load_classifier}

CALIBRATION = "calibration.json"

# A verifier's scores are compared with the threshold in `calibration.json`, and bfloat16 moves them by about .02.
DTYPES = {"prover": torch.bfloat16, "verifier": torch.float32}


def export_merged(source: Path, output: Path, *, player: str, dtype: torch.dtype | None = None) -> None:
    """
    Write a player with its adapter added to the weights. The sum is made in float32 and rounded once. Weights that were
    in 4 bits are taken as those 4 bits say, since the adapter was trained on top of them: the result is the player that
    was judged, up to that rounding, and four times as large as its base was in memory.

    Args:
        source (`Path`):
            Folder of a round's prover or verifier: full weights, or an adapter.
        output (`Path`):
            Is made; a verifier's input template and calibration are stored with it, and its tokenizer appends the end
            token by itself.
        player (`str`):
            `prover` or `verifier`.
        dtype (`torch.dtype`, *optional*):
            Of the weights that are written; by default bfloat16 for a prover and float32 for a verifier.

    Raises:
        ValueError: if `output` exists and is not empty.
    """
    if output.exists() and any(output.iterdir()):
        raise ValueError(f"`{output}` is not empty; name a folder that is new, so that nothing is overwritten.")
    _merged(source, player).to(dtype or DTYPES[player]).save_pretrained(output)
    tokenizer = load_tokenizer(source)
    if player == "verifier":
        VerifierInput.load(source).save_with(tokenizer, output)
    else:
        tokenizer.save_pretrained(output)
    if (source / CALIBRATION).exists():
        shutil.copy(source / CALIBRATION, output / CALIBRATION)


def _merged(source: Path, player: str) -> PreTrainedModel:
    """In float32."""
    load = LOADERS[player]
    if not is_adapter(source):
        return load(str(source))
    adapter = read_adapter(source, player)
    base = load(adapter.base_model_name_or_path, revision=adapter.revision, quantization=saved_quantization(source))
    if is_quantized(base):
        base = base.dequantize()
    return attach_adapter(base, source, adapter).merge_and_unload()
