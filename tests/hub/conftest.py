"""A loopback Hub, a process with the real client, and a game of two rounds to publish."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "game"))  # for the modules beside the game's tests,
sys.path.insert(0, str(Path(__file__).parent))  # and those beside this file

from client import Client
from loopback_hub import LoopbackHub, serving

_SPEC = importlib.util.spec_from_file_location("game_conftest", Path(__file__).parents[1] / "game" / "conftest.py")
_GAME = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_GAME)
player, make_recipe, reference = _GAME.player, _GAME.make_recipe, _GAME.reference
_one_thread = _GAME._one_thread


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
def client(_served, tmp_path_factory) -> Iterator[Client]:
    """Carries out the functions of `orders.py` in a process that talks to the Hub."""
    client = Client(_served[1], tmp_path_factory.mktemp("home"))
    yield client
    client.close()
