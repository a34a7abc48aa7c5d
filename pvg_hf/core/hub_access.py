"""
Access to the Hub: checks that models and datasets are available, and retries after errors of the network or server.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

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

SECONDS = 5  # timeout of a request


def find_outage(repository: str, repo_type: str = "dataset") -> str | None:
    """
    Ask whether the Hub can be reached.

    Args:
        repository (`str`):
            A dataset or model on the Hub.
        repo_type (`str`, defaults to `"dataset"`):
            `"dataset"` or `"model"`.

    Returns:
        `str`, *optional*: why the Hub cannot be reached, in one line; `None` if it gives any answer, or if
        `HF_HUB_OFFLINE` forbids requests.
    """
    try:
        get_hf_file_metadata(hf_hub_url(repository, ".gitattributes", repo_type=repo_type), timeout=SECONDS)
    except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled):
        return None
    except HTTPError as err:  # no answer: the connection failed
        return f"the Hub cannot be reached ({type(err).__name__}: {err})"
    return None


def check_dataset_access(dataset: str) -> None:
    """
    Check that a dataset can be read: from the Hub or from the local cache.

    Raises:
        ValueError: if a dataset is not in the local cache, and the Hub cannot be reached.
    """
    outage = find_outage(dataset)
    if outage is not None and not is_dataset_cached(dataset):
        raise ValueError(f"{outage}, and the dataset is not in the local cache.")


def is_dataset_cached(dataset: str) -> bool:
    """Whether `load_dataset` has already prepared some config of this Hub dataset on this machine."""
    from datasets.load import CachedDatasetModuleFactory  # late: loading `datasets` takes a second

    try:
        CachedDatasetModuleFactory(dataset).get_module()
    except FileNotFoundError:
        return False
    return True


def find_refusal(model: str, revision: str | None) -> str | None:
    """
    Explain why a model cannot be loaded from the Hub; `None` if it can, judging by its configuration file.

    There is one request without retries, because `--plan` should not wait as long as a download would.
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
    """Explain why a dataset cannot be read from the Hub; `None` if it exists. There is one request without retries."""
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


def find_token_refusal() -> str | None:
    """
    Explain why the token can publish nothing; `None` if it can, or if the Hub cannot be asked now. There is one request.

    Whether it may write to a certain namespace only an upload can tell.
    """
    try:
        token = HfApi().whoami().get("auth", {}).get("accessToken", {})
    except (LocalTokenNotFoundError, OfflineModeIsEnabled):
        return None
    except (HfHubHTTPError, HTTPError) as err:
        refused = isinstance(err, HfHubHTTPError) and err.response.status_code in (UNAUTHORIZED, FORBIDDEN)
        return describe(err) if refused else None
    scopes = token.get("fineGrained", {}).get("scoped", [])
    rights = {right for scope in scopes for right in scope.get("permissions", [])}
    may_write = token.get("role") != "read" and (token.get("role") != "fineGrained" or "repo.write" in rights)
    return None if may_write else f"the token `{token.get('displayName')}` may only read"


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

UNAUTHORIZED = 401

FORBIDDEN = 403

STALE_PARENT = 412

TOO_MANY_REQUESTS = 429

TRANSIENT = frozenset({408, 409, STALE_PARENT, 425, TOO_MANY_REQUESTS, 500, 502, 503, 504})

_QUERY = re.compile(r"\?\S+")  # the query of an upload's address holds its signature


class HubError(RuntimeError):
    """The Hub could not be reached or refused a request."""


class DamagedDownload(OSError):
    """A downloaded file differs from what the Hub announced."""


@dataclass(frozen=True)
class RetryPolicy:
    """
    Number of attempts at a Hub request, and the waits between them.

    Args:
        num_attempts (`int`, defaults to 6):
            Attempts in total.
        first_wait (`float`, defaults to 2.0), max_wait (`float`, defaults to 60.0):
            Seconds before the second attempt; doubled before each further one, up to `max_wait`. A wait that the
            server requests (`RateLimit` or `Retry-After`) takes precedence, up to ten times `max_wait`.
    """

    num_attempts: int = 6
    first_wait: float = 2.0
    max_wait: float = 60.0

    def run(self, what: str, action: Callable[[], Result]) -> Result:
        """
        Call `action`, again after transient errors.

        Args:
            what (`str`):
                Name of the action, for messages.
            action (`Callable`):
                The function to call; it must be safe to call it again after a failed attempt.

        Raises:
            HubError: after the last attempt, or at once for an error that is not transient. Errors that come from
                neither the Hub nor the network pass unchanged.
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
    """Return the seconds that the server asks to wait; `None` if it does not say."""
    headers = err.response.headers
    limit = parse_ratelimit_headers(headers) if err.response.status_code == TOO_MANY_REQUESTS else None
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds + 1.0  # the header has whole seconds, which may be rounded down
    retry_after = headers.get("Retry-After", "").strip()
    return float(retry_after) if retry_after.isdigit() else None


def describe(cause: BaseException) -> str:
    """
    Describe an error of the network or the Hub in one line, with advice if any, without tokens and signed addresses.
    """
    if isinstance(cause, HfHubHTTPError):
        status = cause.response.status_code
        message = (
            f"{urlsplit(str(cause.response.url)).netloc if _is_elsewhere(cause) else 'the Hub'} answered {status}"
        )
        if cause.server_message:
            message += f" ({cause.server_message})"
        message += _SIGNATURE_ADVICE if _is_signature_refused(cause) else _ADVICE.get(status, "")
    elif isinstance(cause, LocalTokenNotFoundError):
        message = NO_ACCESS_TOKEN
    else:
        message = f"{type(cause).__name__}: {cause}"
    message = _QUERY.sub("?...", " ".join(message.split()))
    token = get_token()
    return message.replace(token, "***") if token else message


NO_ACCESS_TOKEN = "no token is set: `hf auth login`, or set HF_TOKEN"

_SIGNATURE_ADVICE = ". The signature of the address was refused; it expires after a while. If this keeps happening, check this machine's clock"

_ADVICE = {
    401: ". The token is missing, expired or not allowed here: `hf auth login`, or set HF_TOKEN",
    403: ". The token may not write here: take one with write access to this namespace",
    404: ". There is no such repository or revision, or the token may not see it",
}


# The most informative kinds come first, since one error may have another as its cause: the client wraps those of its
# HTTP library. Python's own network errors come from hf_xet, which transfers large files without that library.
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
    """Find the error of the Hub or the network that `err` is, or that caused it."""
    causes = list(_causes(err))
    found = [cause for kind in _HUB_ERRORS for cause in causes if isinstance(cause, kind)]
    return next(iter([*found, *filter(_is_short, causes), *filter(_is_refused_by_xet, causes)]), None)


def _causes(err: BaseException | None) -> Iterator[BaseException]:
    while err is not None:
        yield err
        err = err.__cause__


def _is_short(err: BaseException) -> bool:
    """Whether a download ended early; the client's error says so only in its text."""
    return isinstance(err, OSError) and "Consistency check failed" in str(err)


def _is_refused_by_xet(err: BaseException) -> bool:
    """
    Whether hf_xet itself raised the error, e.g. for a refused token.

    The package is optional, so its name is compared.
    """
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
