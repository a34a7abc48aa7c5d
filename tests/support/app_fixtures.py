"""Fixtures that serve the app and open it in a real browser."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import gradio as gr
import httpx
import pytest
from starlette.middleware import Middleware

from pvg_hf.app.access import Gate
from pvg_hf.app.app import launch, make_app
from pvg_hf.app.runs import open_run
from pvg_hf.experimental.study.app import StudySettings, make_study_app
from tests.support.ports import find_free_port

CHROMIUM = Path(os.environ.get("PVG_CHROMIUM", "/usr/bin/chromium"))
_OWN = ("127.0.0.1", "localhost")


@contextmanager
def _served_apps() -> Iterator[Callable[..., tuple[str, ExitStack]]]:
    """Serves apps until the end: a function that serves one, and returns its address and what ends it."""
    with ExitStack() as all_apps:

        def start(make: Callable[[ExitStack], gr.Blocks], gate: Middleware) -> tuple[str, ExitStack]:
            stack = all_apps.enter_context(ExitStack())
            app = make(stack)
            stack.callback(app.close, verbose=False)
            # Apps that two processes start at once would compete for the first port from 7860 on.
            options = {"server_name": "127.0.0.1", "server_port": find_free_port(), "quiet": True}
            _, url, _ = launch(app, gate, prevent_thread_lock=True, **options)
            assert httpx.get(f"{app.local_api_url}app_id", trust_env=False).json() == {"app_id": app.app_id}
            return url.rstrip("/"), stack

        yield start


def _start_app(start: Callable, source: Path | str) -> tuple[str, ExitStack]:
    return start(partial(make_app, open_run(str(source))), Middleware(Gate))


def _start_study(start: Callable, source: Path | str, **settings) -> tuple[str, ExitStack]:
    study = StudySettings(**settings)
    return start(lambda stack: make_study_app(open_run(str(source)), study, stack), study.gate)


@pytest.fixture
def serve():
    """Serves apps for one test. An app that nobody needs any more still takes time: with twenty, training is slow."""
    with _served_apps() as start:
        yield partial(_start_app, start)


@pytest.fixture(scope="module")
def serve_for_module():
    with _served_apps() as start:
        yield partial(_start_app, start)


@pytest.fixture
def serve_study():
    """Serves studies for one test."""
    with _served_apps() as start:
        yield partial(_start_study, start)


@pytest.fixture(scope="module")
def study_for_module():
    with _served_apps() as start:
        yield partial(_start_study, start)


@pytest.fixture(scope="module")
def app(serve_for_module, arithmetic_run) -> str:
    """Address of the app on the played run."""
    return serve_for_module(arithmetic_run)[0]


@pytest.fixture(scope="module")
def chromium():
    """A browser for one file's tests: its processes would take time from all files after it."""
    if not CHROMIUM.exists():
        message = f"{CHROMIUM} is not there: apt-get install -y --no-install-recommends chromium, or set PVG_CHROMIUM."
        if os.environ["PVG_TESTS_IN_CI"]:
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # how long a page may take where the machine is busy
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium) -> Iterator:
    """
    Opens pages in one browser profile with a given width and colour scheme. The test fails on any error in a page, and
    on any request that leaves the machine.
    """
    failures: list[str] = []
    contexts = []

    def watch(page) -> None:
        page.on("pageerror", lambda error: failures.append(f"{page.url}: {error}"))
        page.on("dialog", lambda dialog: failures.append(f"dialog {dialog.message!r}"))

    def note(request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "file") and parts.hostname not in _OWN:
            failures.append(f"request to {request.url}")

    def start(url: str, *, width: int = 1280, scheme: str = "light", profile=None):
        if profile is None:
            profile = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            profile.set_default_timeout(30_000)
            profile.on("request", note)
            contexts.append(profile)
        page = profile.new_page()
        watch(page)
        page.goto(url)
        return page

    yield start
    for context in contexts:
        context.close()
    assert failures == []
