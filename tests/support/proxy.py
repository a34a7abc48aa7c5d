"""A proxy that serves an app under a path."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.ports import find_free_port

PREFIX = "/lab/pvg"
"""The path; the app must be started with `GRADIO_ROOT_PATH` set to it."""


@contextmanager
def serving_under_a_path(url: str) -> Iterator[str]:
    """Address of an app behind a proxy that answers to nothing outside its path."""
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
