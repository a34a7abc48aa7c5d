"""A Hub on the loopback, and a client process."""

from tests.support.hub_fixtures import _served, client, endpoint, hub

__all__ = ["_served", "client", "endpoint", "hub"]
