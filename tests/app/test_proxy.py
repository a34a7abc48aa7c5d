"""The app behind a proxy that serves it under a path."""

import re
import threading
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.ports import find_free_port

PREFIX = "/lab/pvg"


@pytest.fixture
def behind_a_path(serve, arithmetic_run, monkeypatch) -> Iterator[str]:
    """Address of the app behind a proxy that answers to nothing outside its path."""
    monkeypatch.setenv("GRADIO_ROOT_PATH", PREFIX)
    url, _ = serve(arithmetic_run)
    server = uvicorn.Server(uvicorn.Config(_proxy(url), port=find_free_port(), log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield f"http://127.0.0.1:{server.config.port}{PREFIX}"
    server.force_exit = server.should_exit = True
    thread.join()


def _proxy(url: str) -> Starlette:
    client = httpx.AsyncClient(base_url=url, timeout=None, trust_env=False)

    async def forward(request: Request) -> Response:
        if not request.url.path.startswith(PREFIX):
            return PlainTextResponse("outside of the path", status_code=404)
        path = request.url.path.removeprefix(PREFIX) or "/"
        headers = [(name, value) for name, value in request.headers.items() if name != "content-length"]
        asked = client.build_request(
            request.method, f"{path}?{request.url.query}", headers=headers, content=await request.body()
        )
        answer = await client.send(asked, stream=True)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, dict(answer.headers))

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST", "HEAD"])])


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
