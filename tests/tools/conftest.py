"""The app in a browser."""

from tests.support.app_fixtures import chromium, open_page

__all__ = ["chromium", "open_page"]
