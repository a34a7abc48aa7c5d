"""A Hub on the loopback, and a client process."""

from tests.support.hub_fixtures import _served, both_rounds, client, endpoint, hub, published

__all__ = ["_served", "both_rounds", "client", "endpoint", "hub", "published"]
