"""
Finds and loads what a player consists of: packaged models, weights from the Hub or a folder, tokenizers, adapters.
"""

import os
import threading
from importlib.resources import files
from pathlib import Path
from textwrap import shorten

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, LocalEntryNotFoundError
from peft import PeftConfig, PeftModel
from safetensors import SafetensorError, safe_open
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.integrity import DamagedFileError, replay_advice
from pvg_hf.models.quantization import save_quantization

LOADING = threading.RLock()
"""Held while a model is loaded: transformers replaces `PreTrainedModel.tie_weights` meanwhile, for all threads."""

PACKAGED = {
    "arithmetic": {"prover": "arithmetic-prover", "verifier": "arithmetic-verifier"},
    "arithmetic-small": {"verifier": "arithmetic-verifier-small"},
    "arithmetic-judge": {"verifier": "arithmetic-judge"},
    "arithmetic-judge-small": {"verifier": "arithmetic-judge-small"},
    "functions": {"prover": "functions-prover", "verifier": "functions-verifier"},
    "proofs": {"prover": "proofs-player", "verifier": "proofs-player"},
}
"""Folder of the model that ships with the package, by its name in a recipe and by player."""

SAFELY = {"trust_remote_code": False, "use_safetensors": True}
"""Arguments for loading weights safely: neither code nor a pickle from the model's repository is run."""

_MODEL_FILES = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.txt"]


def resolve_model(model: str, player: str) -> str:
    """
    Return the folder of a packaged model for its name and player; any other name or folder is returned unchanged.
    """
    if player not in PACKAGED.get(model, {}):
        return model
    return str(files("pvg_hf").joinpath("assets", PACKAGED[model][player]))


def local_folder(source: str | Path, revision: str | None = None) -> str:
    """
    Return `source` if it is a folder, else download it from the Hub, with weights as safetensors only.

    Raises `ValueError` if the Hub has no such model or cannot be reached.
    """
    if Path(source).is_dir():
        return str(source)
    try:
        return snapshot_download(str(source), revision=revision, allow_patterns=_MODEL_FILES)
    except (HFValidationError, HfHubHTTPError, HTTPError, LocalEntryNotFoundError) as err:
        raise ValueError(f"`{source}` is not a folder, and cannot be downloaded from the Hub: {err}") from err


def check_weight_files(source: str | Path, weights: str = "*.safetensors") -> None:
    """
    Check that the weights in a folder are intact safetensors.

    Args:
        source: A folder. A Hub id passes, since its files are not known here.
    Raises `DamagedFileError` if one of them was cut short.
    Raises `ValueError` if the folder has no such file, even if it has the weights as a pickle.
    """
    folder = Path(source)
    for path in folder.glob(weights):
        try:
            with safe_open(path, framework="np"):
                pass
        except SafetensorError as err:
            remedy = replay_advice(path) or "Replace it with a complete copy."
            raise DamagedFileError(path, f"is damaged or was cut short ({err})", remedy) from err
    if folder.is_dir() and not any(folder.glob(weights)):
        others = sorted(path.name for path in folder.glob("*.bin"))
        raise ValueError(
            f"`{source}` has no weights as safetensors ({weights}){f', but {others[0]}' if others else ''}. A pickle"
            " can run a program and is not loaded: have its owner save the model again with `save_pretrained`."
        )


def resolve_dtype(dtype: str, *, is_precise: bool, on_bfloat16: bool | None = None) -> torch.dtype:
    """
    Choose the type of a model's weights.

    Args:
        dtype: `float32`, `bfloat16`, or `auto`: bfloat16 on a GPU that computes in it, and float32 elsewhere.
        is_precise: Whether `auto` always means float32. This is needed for scores, which in bfloat16 depend on the
            batch.
        on_bfloat16: Whether a GPU computes in bfloat16; detected on this machine by default.
    """
    if dtype != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
    if is_precise:
        return torch.float32
    if on_bfloat16 is None:
        on_bfloat16 = has_bfloat16()
    return torch.bfloat16 if on_bfloat16 else torch.float32


def has_bfloat16() -> bool:
    """
    Whether this machine has a GPU that computes in bfloat16.

    Older GPUs (before compute capability 8.0) only emulate it, which is slower than float32.
    """
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def cpu_has_bfloat16() -> bool:
    """Whether this machine's processor has instructions for bfloat16 (AMX, AVX512-BF16, Arm's); others emulate it."""
    return any(is_there is True for name, is_there in torch.cpu.get_capabilities().items() if "bf16" in name)


def load_tokenizer(source: str | Path, revision: str | None = None) -> PreTrainedTokenizerBase:
    """
    Load the tokenizer of `source`, with a padding token.

    Raises `ValueError` if `source` has no tokenizer that can be loaded.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as err:
        reason = shorten(str(err), 200, placeholder=" ...")
        raise ValueError(
            f"{source} has no tokenizer that can be loaded; save one in the folder of the weights ({reason})."
        ) from err
    # Any token will do, since the mask hides padding.
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def is_adapter(folder: str | Path) -> bool:
    """Whether `folder` holds a PEFT adapter rather than full weights."""
    return (Path(folder) / "adapter_config.json").exists()


def read_adapter(folder: str | Path, player: str) -> PeftConfig:
    """
    Load the configuration of an adapter, with the path of its base on this machine.

    Args:
        player: `prover` or `verifier`. It selects the packaged model if the base is the name of one.
    Raises `ValueError` if the base is a folder that does not exist, or was not published.
    """
    config = PeftConfig.from_pretrained(str(folder))
    if config.base_model_name_or_path == NOT_PUBLISHED:
        raise ValueError(
            f"The adapter in `{folder}` was trained on a base in a local folder that is not published. Write the"
            " base's folder here into `base_model_name_or_path` of its `adapter_config.json`, and delete the"
            " `digests.json` of the phase, which has the digest of that file."
        )
    named = resolve_model(config.base_model_name_or_path, player)
    places = (Path(folder, named), Path(named))  # relative to the adapter's folder, or to the working directory
    found = next((str(place) for place in places if place.is_dir()), None)
    is_path = Path(named).is_absolute() or named.startswith(".")  # no Hub id looks like this
    if found is None and is_path:
        raise ValueError(
            f"The adapter in `{folder}` is on the base `{named}`, a folder that does not exist. Move or copy a run's"
            " folder as a whole; for a base outside of it, correct `base_model_name_or_path` in"
            " `adapter_config.json`, and delete the `digests.json` of the phase, which has the digest of that file."
        )
    config.base_model_name_or_path = found or named
    return config


def name_base(model: torch.nn.Module, saved: Path, *, player: str, run: Path) -> None:
    """
    Write a portable name of the base into the saved adapters of `model`, for [`read_adapter`].

    A base inside the run is named by its path relative to the adapter, a packaged one by its name in a recipe; other
    names stay unchanged. A base in 4 bits is also recorded.

    Args:
        model: The trained model. Without an adapter, nothing is done.
        saved: Folder of the run that contains, at any depth, the saved adapters.
    """
    if not isinstance(model, PeftModel):
        return
    base = model.peft_config[model.active_adapter].base_model_name_or_path
    for file in saved.rglob("adapter_config.json"):
        assert base is not None
        config = PeftConfig.from_pretrained(str(file.parent))
        config.base_model_name_or_path = _portable_name(base, file.parent, player, run)
        config.save_pretrained(file.parent)
        save_quantization(model, file.parent)


def _portable_name(base: str, adapter: Path, player: str, run: Path) -> str:
    for name in PACKAGED:
        if base == resolve_model(name, player):
            return name
    if Path(os.path.abspath(base)).is_relative_to(os.path.abspath(run)):
        return Path(os.path.relpath(base, adapter)).as_posix()
    return base
