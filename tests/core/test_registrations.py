"""Additions of `pvg_hf.experimental` to the core, and the core without them."""

import sys

import pytest

from pvg_hf.core.registrations import registered


@pytest.fixture
def without_experimental(monkeypatch):
    monkeypatch.setitem(sys.modules, "pvg_hf.experimental", None)  # as if it were not installed
    registered.cache_clear()
    yield
    registered.cache_clear()


@pytest.mark.parametrize("kind", ["solution kind", "plot"])
def test_nothing_is_registered_without_the_experimental_parts(kind, without_experimental):
    assert registered(kind) == ()


@pytest.mark.parametrize("kind", ["solution kind", "plot"])
def test_the_experimental_parts_are_registered(kind):
    assert len(registered(kind)) > 0
