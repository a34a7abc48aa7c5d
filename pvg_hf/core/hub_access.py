"""Whether the Hub has a model or dataset, and trying again what a network or a busy server refused."""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from datasets.load import CachedDatasetModuleFactory
from huggingface_hub import HfApi, constants, get_hf_file_metadata, get_token, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)
from huggingface_hub.utils import parse_ratelimit_headers

logger = logging.getLogger(__name__)

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


Result = TypeVar("Result")

FORBIDDEN = 403

STALE_PARENT = 412

TOO_MANY_REQUESTS = 429

TRANSIENT = frozenset({408, 409, STALE_PARENT, 425, TOO_MANY_REQUESTS, 500, 502, 503, 504})

_QUERY = re.compile(r"\?\S+")  # of an address for uploads, which is signed


class HubError(RuntimeError):
    """The Hub could not be reached, or refused what it was asked for."""


class DamagedDownload(OSError):
    """A file came with other bytes than the Hub announced."""


@dataclass(frozen=True)
class RetryPolicy:
    """
    Args:
        num_attempts (`int`, defaults to 6):
            How often something is tried.
        first_wait (`float`, defaults to 2.0), max_wait (`float`, defaults to 60.0):
            Seconds before the second attempt, doubled before each further one up to `max_wait`. If the server says how
            long to wait (`RateLimit` or `Retry-After`), that is waited, up to ten times `max_wait`.
    """

    num_attempts: int = 6
    first_wait: float = 2.0
    max_wait: float = 60.0

    def run(self, what: str, action: Callable[[], Result]) -> Result:
        """
        Args:
            what (`str`):
                Names the action in messages.
            action (`Callable`):
                What is tried; a second attempt must not mind what a first one has done.

        Raises:
            HubError: once it failed for good; other errors than those of the Hub and the network pass.
        """
        for attempt in range(1, self.num_attempts + 1):
            try:
                return action()
            except (HTTPError, OSError, RuntimeError) as err:
                cause = _hub_error(err)
                if cause is None:
                    raise
                if attempt == self.num_attempts or not _is_transient(cause):
                    raise HubError(f"{what}: {describe(cause)}") from err
                wait = self._wait(attempt, cause)
                logger.warning("%s: %s. Trying again in %.0f s.", what, describe(cause).rstrip("."), wait)
                time.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _wait(self, attempt: int, cause: BaseException) -> float:
        requested = _requested_wait(cause) if isinstance(cause, HfHubHTTPError) else None
        if requested is not None:
            return min(requested, 10 * self.max_wait)
        return min(self.first_wait * 2 ** (attempt - 1), self.max_wait)


def _requested_wait(err: HfHubHTTPError) -> float | None:
    """Seconds that the server asks to wait; `None` if it says nothing."""
    headers = err.response.headers
    limit = parse_ratelimit_headers(headers) if err.response.status_code == TOO_MANY_REQUESTS else None
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds + 1.0  # the header has whole seconds, which may be rounded down
    retry_after = headers.get("Retry-After", "").strip()
    return float(retry_after) if retry_after.isdigit() else None


def describe(cause: BaseException) -> str:
    """A network's or the Hub's error in one line, with advice where there is one; no token and no signed address is in it."""
    if isinstance(cause, HfHubHTTPError):
        status = cause.response.status_code
        message = (
            f"{urlsplit(str(cause.response.url)).netloc if _is_elsewhere(cause) else 'the Hub'} answered {status}"
        )
        if cause.server_message:
            message += f" ({cause.server_message})"
        message += _SIGNATURE_ADVICE if _is_signature_refused(cause) else _ADVICE.get(status, "")
    elif isinstance(cause, LocalTokenNotFoundError):
        message = NO_TOKEN
    else:
        message = f"{type(cause).__name__}: {cause}"
    message = _QUERY.sub("?...", " ".join(message.split()))
    token = get_token()
    return message.replace(token, "***") if token else message


NO_TOKEN = "no token is set: `hf auth login`, or set HF_TOKEN"

_SIGNATURE_ADVICE = (
    ". The signature of the address was refused; it expires after a while. If this goes on, check this machine's clock"
)

_ADVICE = {
    401: ". The token is missing, expired or not allowed here: `hf auth login`, or set HF_TOKEN",
    403: ". The token may not write here: take one with write access to this namespace",
    404: ". There is no such repository or revision, or the token may not see it",
}


# What tells most comes first: the client's errors have those of its HTTP library as their causes, or wrap them. Python's own
# errors of the network are those of hf_xet, which carries large files beside that library.
_HUB_ERRORS = (
    *(
        HfHubHTTPError,
        HTTPError,
        DamagedDownload,
        OfflineModeIsEnabled,
        LocalEntryNotFoundError,
        LocalTokenNotFoundError,
    ),
    *(ConnectionError, TimeoutError),
)


def _hub_error(err: BaseException) -> BaseException | None:
    """The error of the Hub or the network that `err` is or comes of."""
    causes = list(_causes(err))
    found = [cause for kind in _HUB_ERRORS for cause in causes if isinstance(cause, kind)]
    return next(iter([*found, *filter(_is_short, causes), *filter(_is_refused_by_xet, causes)]), None)


def _causes(err: BaseException | None) -> Iterator[BaseException]:
    while err is not None:
        yield err
        err = err.__cause__


def _is_short(err: BaseException) -> bool:
    """A download that ended early, which the client tells by its text alone."""
    return isinstance(err, OSError) and "Consistency check failed" in str(err)


def _is_refused_by_xet(err: BaseException) -> bool:
    """An error of hf_xet's own, such as a token that it is not let in with; not every machine has the package."""
    return type(err).__module__.partition(".")[0] == "hf_xet"


def _is_elsewhere(err: HfHubHTTPError) -> bool:
    """Whether the request went to a storage server, at an address that the Hub had signed for a limited time."""
    return urlsplit(str(err.response.url)).hostname != urlsplit(constants.ENDPOINT).hostname


def _is_signature_refused(err: HfHubHTTPError) -> bool:
    return err.response.status_code == FORBIDDEN and _is_elsewhere(err)


def _is_transient(cause: BaseException) -> bool:
    if isinstance(cause, HfHubHTTPError):
        # The next attempt asks the Hub for a new signature.
        return cause.response.status_code in TRANSIENT or _is_signature_refused(cause)
    return not (isinstance(cause, (OfflineModeIsEnabled, LocalTokenNotFoundError)) or _is_refused_by_xet(cause))
