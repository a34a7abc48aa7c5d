"""Trying again what a network or a busy server refused."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from huggingface_hub import get_token
from huggingface_hub.errors import HfHubHTTPError, HTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
STALE_PARENT = 412
TRANSIENT = frozenset({408, 409, STALE_PARENT, 425, 429, 500, 502, 503, 504})
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
            Seconds before the second attempt, doubled before each further one up to `max_wait`. Where the server says
            how long to wait, that is waited, up to ten times `max_wait`.
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
        told = cause.response.headers.get("Retry-After", "") if isinstance(cause, HfHubHTTPError) else ""
        if told.isdigit():
            return min(float(told), 10 * self.max_wait)
        return min(self.first_wait * 2 ** (attempt - 1), self.max_wait)


def describe(cause: BaseException) -> str:
    """A network's or the Hub's error in one line, with advice where there is one; no token and no signed address is in it."""
    if isinstance(cause, HfHubHTTPError):
        status = cause.response.status_code
        message = f"the Hub answered {status}"
        if cause.server_message:
            message += f" ({cause.server_message})"
        message += _ADVICE.get(status, "")
    else:
        message = f"{type(cause).__name__}: {cause}"
    message = _QUERY.sub("?...", " ".join(message.split()))
    token = get_token()
    return message.replace(token, "***") if token else message


_ADVICE = {
    401: ". The token is missing, expired or not allowed here: `hf auth login`, or set HF_TOKEN",
    403: ". The token may not write here: take one with write access to this namespace",
    404: ". There is no such repository or revision, or the token may not see it",
}


# What tells most comes first: the client's errors have those of its HTTP library as their causes, or wrap them. Python's own
# errors of the network are those of hf_xet, which carries large files beside that library.
_OF_THE_HUB = (
    *(HfHubHTTPError, HTTPError, DamagedDownload, OfflineModeIsEnabled, LocalEntryNotFoundError),
    *(ConnectionError, TimeoutError),
)


def _hub_error(err: BaseException) -> BaseException | None:
    """The error of the Hub or the network that `err` is or comes of."""
    causes = list(_causes(err))
    found = [cause for kind in _OF_THE_HUB for cause in causes if isinstance(cause, kind)]
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


def _is_transient(cause: BaseException) -> bool:
    if isinstance(cause, HfHubHTTPError):
        return cause.response.status_code in TRANSIENT
    return not (isinstance(cause, OfflineModeIsEnabled) or _is_refused_by_xet(cause))
