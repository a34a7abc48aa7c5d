"""Whether the Hub can be reached: asked once, without the retries of a download."""

from datasets.load import CachedDatasetModuleFactory
from huggingface_hub import get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled

SECONDS = 5  # for an answer


def find_outage(repository: str, repo_type: str = "dataset") -> str | None:
    """
    Args:
        repository (`str`):
            A dataset or model on the Hub.
        repo_type (`str`, defaults to `"dataset"`):
            `"dataset"` or `"model"`.

    Returns:
        `str`, *optional*: why the Hub cannot be reached, in one line; `None` if it gives any answer, or if `HF_HUB_OFFLINE`
        forbids to ask.
    """
    try:
        get_hf_file_metadata(hf_hub_url(repository, ".gitattributes", repo_type=repo_type), timeout=SECONDS)
    except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled):
        return None
    except HTTPError as err:  # of the connection
        return f"the Hub cannot be reached ({type(err).__name__}: {err})"
    return None


def refuse_outage(dataset: str) -> None:
    """
    Raises:
        ValueError: if a dataset is not in the local cache, and the Hub cannot be reached.
    """
    outage = find_outage(dataset)
    if outage is not None and not is_dataset_cached(dataset):
        raise ValueError(f"{outage}, and the dataset is not in the local cache.")


def is_dataset_cached(dataset: str) -> bool:
    """Whether `load_dataset` has prepared some config of a dataset of the Hub on this machine before."""
    try:
        CachedDatasetModuleFactory(dataset).get_module()
    except FileNotFoundError:
        return False
    return True
