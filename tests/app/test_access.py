"""Requests by plain HTTP that no page of the app sends."""

import pytest

from tests.support.app_visitor import Visitor


@pytest.mark.parametrize("size", [10, 10_500_000])
def test_nobody_uploads_a_file(app, size):
    files = {"files": ("text.txt", "x" * size, "text/plain")}
    assert Visitor(app).http.post("/gradio_api/upload", files=files).status_code == 403
