"""Whether a model or dataset that is not a folder of this machine can be had: from the local cache, or from the Hub."""

import json
from pathlib import Path

from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled

from pvg_hf.hub.retry import describe
from pvg_hf.hub_access import SECONDS, is_dataset_cached


def find_refusal(model: str, revision: str | None) -> str | None:
    """
    Why a model of the Hub cannot be loaded; `None` if it can, as far as its configuration tells. The Hub is asked once: a
    plan does not wait for it as a download would.
    """
    if is_cached(model, revision):
        return None
    try:
        _ask(model, revision)
    except OfflineModeIsEnabled:
        return "`HF_HUB_OFFLINE` forbids to download it"
    except (HfHubHTTPError, HTTPError) as err:
        return _describe(err)
    return None


def find_dataset_refusal(dataset: str, revision: str | None) -> str | None:
    """Why a dataset of the Hub cannot be read; `None` if it can, as far as its existence tells. The Hub is asked once."""
    try:
        HfApi().dataset_info(dataset, revision=revision, timeout=SECONDS)
    except OfflineModeIsEnabled:
        return None if is_dataset_cached(dataset) else "`HF_HUB_OFFLINE` forbids to download it"
    except HFValidationError:
        return "it is neither a file or folder on this machine nor the id of a dataset on the Hub (`org/name`)"
    except (HfHubHTTPError, HTTPError) as err:
        return _describe(err)
    return None


def _describe(err: HTTPError) -> str:
    return describe(err) if isinstance(err, HfHubHTTPError) else f"the Hub cannot be reached ({describe(err)})"


def is_on_hub(model: str, revision: str | None) -> bool:
    """Whether the Hub has the model's configuration."""
    try:
        _ask(model, revision)
    except (HTTPError, HfHubHTTPError, HFValidationError, OfflineModeIsEnabled):
        return False
    return True


def _ask(model: str, revision: str | None) -> None:
    get_hf_file_metadata(hf_hub_url(model, "config.json", revision=revision), timeout=SECONDS)


def is_cached(model: str, revision: str | None) -> bool:
    """Whether the local cache has a model's configuration and all of its weights, as safetensors."""
    config = try_to_load_from_cache(model, "config.json", revision=revision)
    if not isinstance(config, str):  # `None`, or a mark that the Hub has no such file
        return False
    folder = Path(config).parent
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return (folder / "model.safetensors").exists()
    shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return all((folder / name).exists() for name in set(shards))
