"""Whether the Hub can be asked about a model that is not on this machine."""

from huggingface_hub import get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled

SECONDS = 5


def is_on_hub(model: str, revision: str | None) -> bool:
    """
    Whether the Hub has the model's configuration. It is asked once: a plan does not wait for a Hub that is away, as a
    download would.
    """
    try:
        get_hf_file_metadata(hf_hub_url(model, "config.json", revision=revision), timeout=SECONDS)
    except (HTTPError, HfHubHTTPError, HFValidationError, OfflineModeIsEnabled):
        return False
    return True
