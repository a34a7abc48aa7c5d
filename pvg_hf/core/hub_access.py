"""Requests to the Hub: whether it has a model or dataset, and one retry around everything that is read or written."""

import json
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from huggingface_hub import HfApi, constants, get_hf_file_metadata, get_token, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
)
from huggingface_hub.utils import parse_ratelimit_headers

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

SECONDS = 5  # timeout of a single request

WAITS = (2.0, 4.0, 8.0, 16.0, 32.0)  # seconds before each further attempt of [`ask_hub`]

NO_ACCESS_TOKEN = "no token is set: `hf auth login`, or set HF_TOKEN"

_TRANSIENT = frozenset({408, 409, 412, 425, 429, 500, 502, 503, 504})  # 412: somebody else committed in the meantime

_ADVICE = {
    401: ". The token is missing, expired or not allowed here: `hf auth login`, or set HF_TOKEN",
    403: ". The token may not write here: take one with write access to this namespace",
    404: ". There is no such repository or revision, or the token may not see it",
}

_QUERY = re.compile(r"\?\S+")  # the query of an upload's address holds its signature


class HubError(RuntimeError):
    """The Hub could not be reached or refused a request."""


class DamagedDownload(OSError):
    """A downloaded file differs from what the Hub announced."""


def find_refusal(model: str, revision: str | None) -> str | None:
    """Explain why a model cannot be loaded from the Hub; `None` if it can, judging by its configuration file."""
    # One request without retries, because `--plan` should not wait as long as a download would.
    try:
        if not is_cached(model, revision):
            get_hf_file_metadata(hf_hub_url(model, "config.json", revision=revision), timeout=SECONDS)
    except (HFValidationError, OfflineModeIsEnabled, HTTPError) as err:
        return describe(err)
    return None


def find_dataset_refusal(dataset: str, revision: str | None = None) -> str | None:
    """
    Explain, by one request, why a dataset cannot be read; `None` if the Hub has it, or the local cache some config of
    it.
    """
    try:
        HfApi().dataset_info(dataset, revision=revision, timeout=SECONDS)
    except HFValidationError:
        return "it is neither a file or folder on this machine nor the id of a dataset on the Hub (`org/name`)"
    except (OfflineModeIsEnabled, HTTPError) as err:
        return None if is_dataset_cached(dataset) else describe(err)
    return None


def check_dataset_access(dataset: str) -> None:
    """Check that a dataset can be read, from a folder, from the Hub or from the local cache; else a `ValueError`."""
    refusal = None if Path(dataset).exists() else find_dataset_refusal(dataset)
    if refusal is not None:
        raise ValueError(f"{refusal}, and the dataset is not in the local cache.")


def is_dataset_cached(dataset: str) -> bool:
    """Whether `load_dataset` has already prepared some config of this Hub dataset on this machine."""
    from datasets.load import CachedDatasetModuleFactory  # late: loading `datasets` takes a second

    try:
        CachedDatasetModuleFactory(dataset).get_module()
    except FileNotFoundError:
        return False
    return True


def find_token_refusal() -> str | None:
    """
    Explain why the token can publish nothing; `None` if it can, or if the Hub cannot be asked now. There is one
    request.

    Whether it may write to a certain namespace only an upload can tell.
    """
    try:
        token = HfApi().whoami().get("auth", {}).get("accessToken", {})
    except (LocalTokenNotFoundError, OfflineModeIsEnabled):
        return None
    except HTTPError as err:
        is_refused = isinstance(err, HfHubHTTPError) and err.response.status_code in (401, 403)
        return describe(err) if is_refused else None
    scopes = token.get("fineGrained", {}).get("scoped", [])
    rights = {right for scope in scopes for right in scope.get("permissions", [])}
    may_write = token.get("role") != "read" and (token.get("role") != "fineGrained" or "repo.write" in rights)
    return None if may_write else f"the token `{token.get('displayName')}` may only read"


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


def ask_hub(what: str, action: Callable[[], Result]) -> Result:
    """
    Call `action`, again after errors that may pass, with the waits of `WAITS` or the one that the Hub asks for.

    It must be safe to call again after a failed attempt. Messages name it by `what`.

    Raises `HubError` after the last attempt, or at once for an error that does not pass. Errors that come from neither
    the Hub nor the network, such as a full disk, pass unchanged.
    """
    for wait in (*WAITS, None):
        try:
            return action()
        except (HTTPError, OSError, RuntimeError) as err:
            cause = _hub_error(err)
            if cause is None:
                raise
            if wait is None or not _may_pass(cause):
                raise HubError(f"{what}: {describe(cause)}") from err
            limit = parse_ratelimit_headers(cause.response.headers) if isinstance(cause, HfHubHTTPError) else None
            if limit is not None and limit.remaining == 0:
                wait = limit.reset_in_seconds + 1.0  # the header has whole seconds, which may be rounded down
            logger.warning("%s: %s. Trying again in %.0f s.", what, describe(cause).rstrip("."), wait)
            time.sleep(wait)
    raise AssertionError("unreachable: the last attempt returns or raises")


def describe(err: Exception) -> str:
    """
    Describe an error of the network or the Hub in one line, with advice if any, without tokens and signed addresses.
    """
    if isinstance(err, HfHubHTTPError):
        status, is_elsewhere = err.response.status_code, _is_elsewhere(err)
        message = f"{urlsplit(str(err.response.url)).netloc if is_elsewhere else 'the Hub'} answered {status}"
        message += f" ({err.server_message})" if err.server_message else ""
        message += "" if is_elsewhere else _ADVICE.get(status, "")
    elif isinstance(err, HTTPError):
        message = f"the Hub cannot be reached ({type(err).__name__}: {err})"
    elif isinstance(err, OfflineModeIsEnabled):
        message = "`HF_HUB_OFFLINE` forbids requests to the Hub"
    elif isinstance(err, LocalTokenNotFoundError):
        message = NO_ACCESS_TOKEN
    else:
        message = f"{type(err).__name__}: {err}"
    message = _QUERY.sub("?...", " ".join(message.split()))
    token = get_token()
    return message.replace(token, "***") if token else message


def _hub_error(err: BaseException | None) -> Exception | None:
    """
    Find the error of the Hub or the network that `err` is, or that caused it: the client wraps those of its HTTP
    library.
    """
    causes = []
    while err is not None:
        is_local = isinstance(err, OSError) and err.errno is not None  # from the system: no space left, ...
        if not is_local or isinstance(err, (ConnectionError, TimeoutError)):
            causes.append(err)
        err = err.__cause__
    kinds = (HfHubHTTPError, HTTPError, OfflineModeIsEnabled, OSError)  # the most informative first
    return next((cause for kind in kinds for cause in causes if isinstance(cause, kind)), None)


def _may_pass(cause: Exception) -> bool:
    if isinstance(cause, HfHubHTTPError):
        status = cause.response.status_code
        # A storage server answers 403 when the signature of an address expired; the next attempt asks for another one.
        return status in _TRANSIENT or (status == 403 and _is_elsewhere(cause))
    # hf_xet raises the last one.
    return not isinstance(cause, (OfflineModeIsEnabled, LocalTokenNotFoundError, PermissionError))


def _is_elsewhere(err: HfHubHTTPError) -> bool:
    """Whether the request went to a storage server, at an address that the Hub had signed for a limited time."""
    return urlsplit(str(err.response.url)).hostname != urlsplit(constants.ENDPOINT).hostname
