"""Requests that are repeated, the waits before them, and the messages."""

import errno

import hf_xet
import httpx2
import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled
from huggingface_hub.utils import hf_raise_for_status

from pvg_hf.core import hub_access
from pvg_hf.core.hub_access import DamagedDownload, HubError, ask_hub
from tests.support.loopback_hub import Fault


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Seconds of each wait, which are recorded and not waited."""
    seen: list[float] = []
    monkeypatch.setattr(hub_access.time, "sleep", seen.append)
    return seen


class Failing:
    """Raises one error after the other, and then returns their number."""

    def __init__(self, *errors: Exception):
        self.errors = list(errors)
        self.number = len(errors)

    def __call__(self) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return self.number


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"RateLimit": '"api";r=0;t=80', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}, 81),
        ({"RateLimit": '"api";r=7;t=80'}, 2),
        ({"RateLimit": "broken"}, 2),
        ({}, 2),
    ],
)
def test_waits_as_long_as_the_hub_asks(headers, wait, hub, endpoint, waits):
    hub.faults.append(Fault("GET /limited", 429, headers=headers))
    assert ask_hub("it", Failing(_answer_of(f"{endpoint}/limited"))) == 1
    assert waits == [wait]


def _answer_of(url: str) -> HfHubHTTPError:
    with pytest.raises(HfHubHTTPError) as caught:
        hf_raise_for_status(httpx2.get(url))
    return caught.value


def test_a_signature_that_expired_is_not_blamed_on_the_token(hub, endpoint, waits, monkeypatch):
    monkeypatch.setattr(hub_access.constants, "ENDPOINT", endpoint)
    hub.faults.append(Fault("GET /blobs", 403, count=6))
    signed = endpoint.replace("127.0.0.1", "localhost") + "/blobs?X-Amz-Signature=abc"
    with pytest.raises(HubError, match=r"localhost.* answered 403") as caught:
        ask_hub("it", Failing(*(_answer_of(signed) for _ in range(6))))
    assert "token" not in str(caught.value)
    assert "abc" not in str(caught.value)
    hub.faults.append(Fault("GET /api", 403))
    with pytest.raises(HubError, match="write access"):
        ask_hub("it", Failing(_answer_of(f"{endpoint}/api")))
    assert waits == [2, 4, 8, 16, 32]


def test_a_missing_token_is_mentioned_once(waits):
    with pytest.raises(HubError, match=r"no token .*`hf auth login`.* HF_TOKEN$"):
        ask_hub("it", Failing(LocalTokenNotFoundError("Token is required\nto call.")))
    assert waits == []


def test_gives_up_and_says_what_failed(waits):
    with pytest.raises(HubError, match="read: DamagedDownload: again") as caught:
        ask_hub("it is read", Failing(*[DamagedDownload("again")] * 6))
    assert isinstance(caught.value.__cause__, DamagedDownload)
    assert waits == [2, 4, 8, 16, 32]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("other"),
        OSError(errno.ENOSPC, "other"),
        PermissionError(errno.EACCES, "other"),
        ValueError("other"),
    ],
)
def test_errors_of_something_else_pass(error, waits):
    with pytest.raises(type(error), match="other"):
        ask_hub("it", Failing(error))
    assert waits == []


def test_an_error_that_the_client_wrapped_is_found(waits):
    wrapped = RuntimeError("Error while uploading")
    wrapped.__cause__ = DamagedDownload("again")
    assert ask_hub("it", Failing(wrapped)) == 1
    assert waits == [2]


def test_a_short_download_is_made_again(waits):
    """The client says it by a plain `OSError`."""
    assert ask_hub("it", Failing(OSError("Consistency check failed: file should be of size 3"))) == 1


@pytest.mark.parametrize("kind", [ConnectionError, ConnectionResetError, TimeoutError])
def test_a_network_that_is_lost_below_the_client_is_tried_again(kind, waits):
    """hf_xet reports it without a cause."""
    error = kind("Server error: 503 Service Unavailable")
    assert ask_hub("it", Failing(error, error)) == 2
    assert waits == [2, 4]
    with pytest.raises(HubError, match=f"{kind.__name__}: .*503") as caught:
        ask_hub("it is written", Failing(*[error] * 6))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("kind", "message"),
    [(hf_xet.XetAuthenticationError, "it: XetAuthenticationError: refused"), (OfflineModeIsEnabled, "HF_HUB_OFFLINE")],
)
def test_permanent_errors_are_not_retried(kind, message, waits):
    with pytest.raises(HubError, match=message):
        ask_hub("it", Failing(kind("refused")))
    assert waits == []


def test_messages_contain_no_token_and_no_signed_address(waits, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(HubError) as caught:
        ask_hub("it", Failing(hf_xet.XetAuthenticationError("https://cdn.example/x?Signature=abc with hf_secret")))
    assert "hf_secret" not in str(caught.value)
    assert "Signature" not in str(caught.value)
