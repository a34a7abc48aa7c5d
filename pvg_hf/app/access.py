"""Middleware before Gradio that refuses uploads and large requests."""

from collections.abc import Callable
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response

MAX_UPLOAD_BYTES = 10_000_000
"""Maximum size of a file that may be uploaded."""

MAX_REQUEST_BYTES = 1_000_000
"""Maximum size of any other request: the longest text that a page sends has a few thousand characters."""


class Gate:
    """Middleware before the ASGI application of Gradio, whose own upload address would take any file from anybody."""

    def __init__(self, app: Callable):
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        answer = self.answer(HTTPConnection(scope)) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)

    def refuse_upload(self, connection: HTTPConnection) -> str | None:
        """Reason why a visitor may upload no file; `None` if the visitor may."""
        return "This app takes no files."

    def answer(self, connection: HTTPConnection) -> Response | None:
        """Answer a request that Gradio should not see; `None` for all others."""
        is_upload = connection.scope["path"].rstrip("/").endswith("/upload")
        reason = self.refuse_upload(connection) if is_upload else None
        if reason is not None:
            return PlainTextResponse(reason, status_code=403)
        headers = connection.headers
        # A chunked request does not state its size.
        if "content-length" not in headers and "transfer-encoding" in headers:
            return PlainTextResponse("The request must state its length.", status_code=411)
        size = headers.get("content-length", "0")
        limit = 2 * MAX_UPLOAD_BYTES if is_upload else MAX_REQUEST_BYTES  # Gradio checks each file of an upload
        if not size.isdecimal() or int(size) > limit:
            return PlainTextResponse(f"The request is too large; at most {limit:,} bytes are read.", status_code=413)
        return None
