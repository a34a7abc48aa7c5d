"""4-bit weights under adapters (QLoRA, Dettmers et al. 2023, arXiv 2305.14314), by bitsandbytes."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import BitsAndBytesConfig, PreTrainedModel

from pvg_hf.core.integrity import read_json
from pvg_hf.core.project import install_extra

DEVICES = frozenset({"cpu", "cuda", "xpu"})  # those for which bitsandbytes has 4-bit layers
_FILE = "quantization.json"


def check_quantization(quantization: str, device: torch.device) -> None:
    """
    Check that this machine supports the quantisation.

    Raises `ValueError` for weights in 4 bits, if bitsandbytes is missing or does not support the device.
    """
    if quantization == "none":
        return
    if find_spec("bitsandbytes") is None:
        raise ValueError(f"Weights in 4 bits need bitsandbytes: {install_extra('quant')}, or `quantization: none`.")
    if device.type not in DEVICES:
        raise ValueError(
            f"bitsandbytes has no 4-bit weights for the device `{device.type}` (it has for"
            f" {', '.join(sorted(DEVICES))}); set `quantization: none`."
        )


def quantization_arguments(quantization: str, dtype: torch.dtype, *, kept: Sequence[str] = ()) -> dict[str, Any]:
    """
    Return the arguments of `from_pretrained` for a quantisation.

    Args:
        quantization: `none`, or `4bit`: NF4 with double quantisation, about 4.1 bits per weight.
        kept: Modules that stay unquantised, such as a score head.
    """
    if quantization == "none":
        return {}
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        llm_int8_skip_modules=list(kept) or None,
    )
    return {"quantization_config": config}


def is_quantized(model: PreTrainedModel | PeftModel) -> bool:
    return "quantization_config" in model.config.to_dict()


def mend_layers(model: PreTrainedModel) -> None:
    """
    Work around wrong gradients of bitsandbytes' 4-bit layers on a processor with AVX512-BF16.

    Its first forward pass without gradients repacks a layer's weights, after which gradients are silently wrong. A
    layer that claims no support for AVX512-BF16 is not repacked.
    """
    if not is_quantized(model) or model.device.type != "cpu":
        return
    # Imported here because bitsandbytes is optional.
    from bitsandbytes.nn import Linear4bit

    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False


def save_quantization(model: PreTrainedModel | PeftModel, folder: Path) -> None:
    """
    Record next to an adapter that its base was held in 4 bits; on unrounded weights it would be a different model.
    """
    if is_quantized(model):
        (folder / _FILE).write_text(json.dumps({"quantization": "4bit"}) + "\n", encoding="utf-8")


def saved_quantization(folder: str | Path) -> str:
    """Return the quantisation of an adapter's base: `none` or `4bit`."""
    file = Path(folder) / _FILE
    return read_json(file, dict[str, str]).get("quantization", "none") if file.exists() else "none"
