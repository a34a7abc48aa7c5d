"""Builds the app on a run and serves it."""

import logging
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import gradio as gr
from starlette.middleware import Middleware

from pvg_hf.app.access import MAX_UPLOAD_BYTES, Gate
from pvg_hf.app.compare_page import build_compare_page
from pvg_hf.app.evaluations_page import build_evaluations_page
from pvg_hf.app.header import build_header
from pvg_hf.app.render import FOLDER
from pvg_hf.app.rounds_page import build_rounds_page
from pvg_hf.app.runs import OpenRun, open_run
from pvg_hf.app.score_page import build_score_page
from pvg_hf.app.solutions_page import build_solutions_page
from pvg_hf.app.text_scores import ScoreDesk
from pvg_hf.app.theme import make_theme
from pvg_hf.app.verifiers_page import build_verifiers_page
from pvg_hf.core.shipped import shipped_folder


def serve_run(source: str, port: int | None) -> None:
    """
    Serve the app on a run, by its folder or published name, until Ctrl-C or SIGTERM; a `ValueError` if it cannot be
    opened.

    By default, the port is the first free one from 7860.
    """
    serve(lambda stack: make_app(open_run(source), stack), Middleware(Gate), port, show_address)


def serve(
    make: Callable[[ExitStack], gr.Blocks], gate: Middleware, port: int | None, describe: Callable[[str], str]
) -> None:
    """
    Serve an app until Ctrl-C or SIGTERM.

    The stack that `make` builds the app with releases its resources at the end. The gate (see
    [`~pvg_hf.app.access.Gate`]) stands before Gradio. What `describe` returns for the app's address is printed.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="pvg-"))
        os.environ.setdefault("GRADIO_TEMP_DIR", f"{folder}/gradio")  # uploads, and copies of downloads
        app = make(stack)
        _, url, _ = launch(app, gate, server_port=port, prevent_thread_lock=True, quiet=True)
        signal.signal(signal.SIGTERM, _interrupt)
        stack.callback(_close, app)  # before what `make` registered ends, so that no request comes after it
        if "SPACE_HOST" in os.environ:  # in a Space, Gradio knows the address within the container only
            url = f"https://{os.environ['SPACE_HOST']}/"
        root = os.environ.get("GRADIO_ROOT_PATH", "").strip("/")  # behind a proxy
        if root.startswith("http"):
            url = f"{root}/"
        elif root:
            url = f"https://YOUR-PROXY/{root}/ (not {url})"
        print(describe(url), flush=True)
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)


def show_address(url: str) -> str:
    return f"Open {url} in a browser; Ctrl-C ends the app."


def make_app(run: OpenRun, stack: ExitStack) -> gr.Blocks:
    """Build the app on a run; the stack removes its temporary files, and ends its thread."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="pvg-")))
    desk = ScoreDesk(run)
    stack.callback(desk.close)
    with gr.Blocks(title=f"{run.name}: prover-verifier game", analytics_enabled=False) as app:
        gr.Navbar(main_page_name="Solutions")
        build_header(app, run)
        build_solutions_page(app, run, desk, folder)
    pages: dict[tuple[str, str], Callable[[gr.Blocks], None]] = {
        ("Rounds", "rounds"): partial(build_rounds_page, run=run, folder=folder),
        ("Compare", "compare"): partial(build_compare_page, run=run),
        ("Verifiers", "verifiers"): partial(build_verifiers_page, run=run),
        ("Evaluations", "evaluations"): partial(build_evaluations_page, run=run),
        ("Score your own", "score"): partial(build_score_page, run=run, desk=desk),
        ("Glossary", "glossary"): build_glossary_page,
    }
    for (name, path), build in pages.items():
        with app.route(name, path):
            gr.Navbar(main_page_name="Solutions")
            build_header(app, run)
            build(app)
    return app


def build_glossary_page(app: gr.Blocks) -> None:
    """
    Build the page "Glossary". It must be called within the context of `app`. Links to other pages of the docs become
    text.
    """
    text = (shipped_folder("glossary") / "glossary.md").read_text(encoding="utf-8")
    text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    gr.Markdown(text, elem_id="glossary")


def launch(app: gr.Blocks, gate: Middleware, **options: Any) -> tuple[Any, str, str]:
    """Launch an app with its theme, scripts and access control; returns what [`~gradio.Blocks.launch`] returns."""
    script, style = ((FOLDER / name).read_text(encoding="utf-8") for name in ("script.js", "page.css"))
    return app.queue(default_concurrency_limit=4, max_size=64).launch(
        theme=make_theme(),
        css_paths=FOLDER / "style.css",
        head=f"<style>{style}</style><script>{script}</script>",
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        max_file_size=MAX_UPLOAD_BYTES,
        app_kwargs={"middleware": [gate]},
        **options,
    )


def _close(app: gr.Blocks) -> None:
    # Close at once: open pages keep their connections, and the server would wait for them longer than a container may
    # take.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # cut connections are expected here
    app.server.force_exit = True
    app.close(verbose=False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A container gets SIGTERM before its disk is lost: end as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the end
    raise KeyboardInterrupt
