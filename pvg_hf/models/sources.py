"""Where a player's initial weights come from."""

import os
from importlib.resources import files
from pathlib import Path
from textwrap import shorten

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, LocalEntryNotFoundError
from peft import PeftConfig, PeftModel
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.config.recipe import NOT_PUBLISHED
from pvg_hf.core.integrity import check_folder
from pvg_hf.models.quantization import save_quantization

PACKAGED = {
    "arithmetic": {"prover": "arithmetic-prover", "verifier": "arithmetic-verifier"},
    "proofs": {"prover": "proofs-player", "verifier": "proofs-player"},
}
"""By the name of a world and a player, the folder of the model that ships with the package."""

SAFELY = {"trust_remote_code": False, "use_safetensors": True}
"""What loads weights is told: neither code nor a pickle that comes with them is run."""

_MODEL_FILES = ["*.json", "*.jinja", "*.model", "*.safetensors", "*.txt"]


def resolve_model(model: str, player: str) -> str:
    """A Hub id or folder as it is; the name of a built-in world as the folder of the packaged model of `player`."""
    if model not in PACKAGED:
        return model
    return str(files("pvg_hf").joinpath("assets", PACKAGED[model][player]))


def local_folder(source: str | Path, revision: str | None = None) -> str:
    """
    `source`, or, where that is no folder, the one into which it is fetched from the Hub: weights as safetensors only.

    Raises:
        ValueError: if the Hub has no such model, or cannot be asked.
    """
    if Path(source).is_dir():
        return str(source)
    try:
        return snapshot_download(str(source), revision=revision, allow_patterns=_MODEL_FILES)
    except (HFValidationError, HfHubHTTPError, HTTPError, LocalEntryNotFoundError) as err:
        raise ValueError(f"`{source}` is no folder, and cannot be had from the Hub: {err}") from err


def check_weights(source: str | Path, weights: str = "*.safetensors") -> None:
    """
    Args:
        source (`str` or `Path`):
            A folder; a Hub id passes, whose files are not known here.
        weights (`str`, defaults to `"*.safetensors"`):
            What its weights are called.

    Raises:
        DamagedFileError: if a file in the folder is damaged.
        ValueError: if the folder has no such file, be it that they lie there as a pickle.
    """
    folder = Path(source)
    if folder.is_dir():
        check_folder(folder)
    if folder.is_dir() and not any(folder.glob(weights)):
        others = sorted(path.name for path in folder.glob("*.bin"))
        raise ValueError(
            f"`{source}` has no weights as safetensors ({weights}){f', but {others[0]}' if others else ''}. A pickle can run a "
            "program and is not loaded: have its owner save the model anew with `save_pretrained`."
        )


def resolve_dtype(dtype: str, *, is_precise: bool, on_bfloat16: bool | None = None) -> torch.dtype:
    """
    What weights are held in.

    Args:
        dtype (`str`):
            `float32`, `bfloat16`, or `auto`: bfloat16 on a GPU that computes in it, and float32 elsewhere.
        is_precise (`bool`):
            Whether `auto` is float32 in any case: for weights that are trained, most of whose updates bfloat16 would
            round away, and for scores, which in bfloat16 depend on the batch that they are computed in.
        on_bfloat16 (`bool`, *optional*):
            Whether there is a GPU that computes in bfloat16; by default this machine is asked.
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
    Whether there is a GPU that computes in bfloat16. Older ones (before compute capability 8.0) only emulate it, more slowly than
    they compute in float32.
    """
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def load_tokenizer(source: str | Path, revision: str | None = None) -> PreTrainedTokenizerBase:
    """
    The tokenizer of `source`, with a padding token.

    Raises:
        DamagedFileError: if a file in the folder `source` is damaged.
        ValueError: if there is none.
    """
    if Path(source).is_dir():
        check_folder(Path(source))
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as err:
        reason = shorten(str(err), 200, placeholder=" ...")
        raise ValueError(
            f"{source} has no tokenizer that can be loaded; save one there beside the weights ({reason})."
        ) from err
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def is_adapter(folder: str | Path) -> bool:
    """Whether `folder` holds a PEFT adapter rather than full weights."""
    return (Path(folder) / "adapter_config.json").exists()


def read_adapter(folder: str | Path, player: str) -> PeftConfig:
    """
    The configuration of an adapter, its base under the name by which this machine loads it.

    Args:
        folder (`str` or `Path`):
            Where the adapter is.
        player (`str`):
            `prover` or `verifier`: whose packaged model is meant by the name of a built-in world.

    Raises:
        DamagedFileError: if a file in the folder is damaged.
        ValueError: if the base is a folder that is not there, or was not published.
    """
    check_folder(Path(folder))
    config = PeftConfig.from_pretrained(folder)
    if config.base_model_name_or_path == NOT_PUBLISHED:
        raise ValueError(
            f"The adapter in `{folder}` is on a base that was a local folder where it was trained, and is not published. Write the "
            "base's folder here into `base_model_name_or_path` of its `adapter_config.json`."
        )
    named = resolve_model(config.base_model_name_or_path, player)
    places = (Path(folder, named), Path(named))  # from the adapter's folder, from the working directory
    found = next((str(place) for place in places if place.is_dir()), None)
    if found is None and (Path(named).is_absolute() or named.startswith(".")):  # which no Hub id does
        raise ValueError(
            f"The adapter in `{folder}` is on the base `{named}`, a folder that is not there. Move or copy a run's folder "
            "as a whole; for a base outside of it, correct `base_model_name_or_path` in `adapter_config.json`."
        )
    config.base_model_name_or_path = found or named
    return config


def name_base(model: PreTrainedModel | PeftModel, saved: Path, *, player: str, run: Path) -> None:
    """
    Name the base in the saved adapters of `model` so that [`read_adapter`] finds it wherever the run and the package
    lie: one inside the run by its way from the adapter, a packaged one by its world's name. Others keep their name. Whether
    it is held in 4 bits is noted beside.

    Args:
        model ([`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            Was trained. Nothing is done where it has no adapter.
        saved (`Path`):
            Folder of the run in which, at any depth, its adapters were saved.
        player (`str`):
            `prover` or `verifier`.
        run (`Path`):
            The run's folder.
    """
    if not isinstance(model, PeftModel):
        return
    base = model.peft_config[model.active_adapter].base_model_name_or_path
    for file in saved.rglob("adapter_config.json"):
        config = PeftConfig.from_pretrained(file.parent)
        config.base_model_name_or_path = _portable_name(base, file.parent, player, run)
        config.save_pretrained(file.parent)
        save_quantization(model, file.parent)


def _portable_name(base: str, adapter: Path, player: str, run: Path) -> str:
    for world in PACKAGED:
        if base == resolve_model(world, player):
            return world
    if Path(os.path.abspath(base)).is_relative_to(os.path.abspath(run)):
        return Path(os.path.relpath(base, adapter)).as_posix()
    return base
