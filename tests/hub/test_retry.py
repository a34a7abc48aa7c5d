"""What is tried again, when, and what is said."""

import hf_xet
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from pvg_hf.hub import retry
from pvg_hf.hub.retry import DamagedDownload, HubError, RetryPolicy


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Seconds that were waited, in place of waiting them."""
    seen: list[float] = []
    monkeypatch.setattr(retry.time, "sleep", seen.append)
    return seen


class Failing:
    """Raises one error after the other, and then returns how many there were."""

    def __init__(self, *errors: Exception):
        self.errors = list(errors)
        self.number = len(errors)

    def __call__(self) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return self.number


def test_waits_twice_as_long_each_time_up_to_a_limit(waits):
    action = Failing(*[DamagedDownload("again")] * 4)
    assert RetryPolicy(num_attempts=5, first_wait=2, max_wait=6).run("it", action) == 4
    assert waits == [2, 4, 6, 6]


def test_gives_up_and_says_what_failed(waits):
    with pytest.raises(HubError, match="it is read: DamagedDownload: again") as caught:
        RetryPolicy(num_attempts=2, first_wait=1, max_wait=1).run(
            "it is read", Failing(*[DamagedDownload("again")] * 2)
        )
    assert isinstance(caught.value.__cause__, DamagedDownload)
    assert waits == [1]


@pytest.mark.parametrize("error", [RuntimeError("other"), OSError("other"), ValueError("other")])
def test_errors_of_something_else_pass(error, waits):
    with pytest.raises(type(error), match="other"):
        RetryPolicy().run("it", Failing(error))
    assert waits == []


def test_an_error_that_the_client_wrapped_is_found(waits):
    wrapped = RuntimeError("Error while uploading")
    wrapped.__cause__ = DamagedDownload("again")
    assert RetryPolicy().run("it", Failing(wrapped)) == 1
    assert waits == [2]


def test_a_short_download_is_told_by_its_text(waits):
    assert RetryPolicy().run("it", Failing(OSError("Consistency check failed: file should be of size 3"))) == 1


@pytest.mark.parametrize("kind", [ConnectionError, ConnectionResetError, TimeoutError])
def test_a_network_that_is_lost_below_the_client_is_tried_again(kind, waits):
    """As hf_xet tells it, with no cause."""
    error = kind("Server error: 503 Service Unavailable")
    assert RetryPolicy().run("it", Failing(error, error)) == 2
    assert waits == [2, 4]
    with pytest.raises(HubError, match=f"it is written: {kind.__name__}: Server error: 503") as caught:
        RetryPolicy(num_attempts=2).run("it is written", Failing(error, error))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("kind", [hf_xet.XetAuthenticationError, OfflineModeIsEnabled])
def test_what_no_second_attempt_mends_is_not_tried_again(kind, waits):
    with pytest.raises(HubError, match=f"it: {kind.__name__}: refused"):
        RetryPolicy().run("it", Failing(kind("refused")))
    assert waits == []


def test_no_token_and_no_signed_address_is_said(waits, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    error = DamagedDownload("https://cdn.example/x?Signature=abc with hf_secret")
    with pytest.raises(HubError) as caught:
        RetryPolicy(num_attempts=1).run("it", Failing(error))
    assert "hf_secret" not in str(caught.value)
    assert "Signature" not in str(caught.value)
