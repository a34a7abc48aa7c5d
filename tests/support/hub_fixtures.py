"""A loopback Hub, a process with the real client, and a game of two rounds to publish."""

import copy
import shutil
from collections.abc import Iterator

import pytest

from tests.support.hub_client import Client
from tests.support.loopback_hub import LoopbackHub, serving


@pytest.fixture(scope="session")
def _served() -> Iterator[tuple[LoopbackHub, str]]:
    hub = LoopbackHub()
    with serving(hub) as endpoint:
        yield hub, endpoint


@pytest.fixture
def hub(_served) -> LoopbackHub:
    """An empty Hub."""
    _served[0].reset()
    return _served[0]


@pytest.fixture(scope="session")
def endpoint(_served) -> str:
    """Address of the Hub."""
    return _served[1]


@pytest.fixture(scope="session")
def client(_served, tmp_path_factory) -> Iterator[Client]:
    """Runs the functions of `hub_orders.py` in a process that talks to the Hub."""
    client = Client(_served[1], tmp_path_factory.mktemp("home"))
    yield client
    client.close()


@pytest.fixture(scope="session")
def both_rounds(_served, client, reference) -> tuple[LoopbackHub, str]:
    """A Hub after both rounds were published without an error, and the log."""
    hub = _served[0]
    hub.reset()
    said = [client("push", str(reference.root), k) for k in range(2)]
    kept = LoopbackHub()
    kept.repos, kept.large = copy.deepcopy(hub.repos), dict(hub.large)
    return kept, "".join(said)


@pytest.fixture
def published(hub, client, both_rounds) -> LoopbackHub:
    """A Hub with both rounds."""
    kept, _ = both_rounds
    hub.repos, hub.large = copy.deepcopy(kept.repos), dict(kept.large)
    shutil.rmtree(client.home / "hub", ignore_errors=True)  # the client would take files from its cache
    return hub
