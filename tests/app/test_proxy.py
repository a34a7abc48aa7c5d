"""The app behind a proxy that serves it under a path."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.proxy import PREFIX, serving_under_a_path


@pytest.fixture
def behind_a_path(serve, arithmetic_run, monkeypatch):
    monkeypatch.setenv("GRADIO_ROOT_PATH", PREFIX)
    url, _ = serve(arithmetic_run)
    with serving_under_a_path(url) as address:
        yield address


def test_pages_links_and_downloads_stay_within_the_path(behind_a_path, open_page):
    page = open_page(f"{behind_a_path}/")
    outside = []
    page.on("request", lambda request: outside.append(request.url) if PREFIX not in request.url else None)
    page.locator("a.row").first.click()
    expect(page.locator("#card-sneaky pre").first).to_be_visible()
    expect(page).to_have_url(re.compile(f"{PREFIX}/.*open="))
    page.go_back()
    expect(page.locator("a.row").first).to_be_visible()
    page.get_by_role("link", name="Rounds").click()
    expect(page).to_have_url(re.compile(f"{PREFIX}/rounds"))
    expect(page.locator("#verdict .headline")).to_be_visible()
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "small-figures.csv"
    page.get_by_role("link", name="Compare").click()
    expect(page).to_have_url(re.compile(f"{PREFIX}/compare.*ours=1"))
    assert [url for url in outside if not url.startswith(("data:", "blob:"))] == []
