"""A Hub on the loopback, a client process, and the app in a browser."""

from tests.support.app_fixtures import chromium, open_page, serve
from tests.support.hub_fixtures import _served, client, endpoint, hub

__all__ = ["_served", "chromium", "client", "endpoint", "hub", "open_page", "serve"]
