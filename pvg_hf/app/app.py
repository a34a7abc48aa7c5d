"""Builds the app on a run and serves it."""

import logging
import os
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import gradio as gr
from starlette.middleware import Middleware

from pvg_hf.app.access import MAX_UPLOAD_BYTES, OWNER_PAGE, Gate, Owner
from pvg_hf.app.evaluations_page import build_evaluations_page
from pvg_hf.app.glossary_page import build_glossary_page
from pvg_hf.app.render import FOLDER, notice
from pvg_hf.app.rounds_page import build_rounds_page
from pvg_hf.app.runs import OpenRun, open_run
from pvg_hf.app.score_page import build_score_page
from pvg_hf.app.solutions_page import build_solutions_page
from pvg_hf.app.theme import make_theme
from pvg_hf.app.verifiers_page import build_verifiers_page
from pvg_hf.core.hub_access import HubError
from pvg_hf.experimental.messages.app_page import is_message_run, make_message_app
from pvg_hf.experimental.study import MAX_PARTICIPANTS, NUM_SOLUTIONS, SECONDS
from pvg_hf.experimental.study.legibility import open_study, study_folder
from pvg_hf.experimental.study.owner_page import build_owner_page
from pvg_hf.experimental.study.page import build_study_page
from pvg_hf.experimental.study.participants import Study
from pvg_hf.experimental.study.upload import uploaded
from pvg_hf.run.lock import locked

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StudySettings:
    """
    Settings of the app's study.

    Args:
        folder (`Path`, *optional*):
            Folder of the study's files; by default that of [`~pvg_hf.experimental.study.legibility.study_folder`].
        seconds (`float`, *optional*, defaults to `45.0`), num_solutions (`int`, *optional*, defaults to 24):
            Time limit for a solution, and number of solutions per participant.
        repository (`str`, *optional*):
            Dataset repository that the answers are committed to, with the token in `HF_TOKEN`.
        is_alone (`bool`, *optional*, defaults to `False`):
            Whether the app shows only the study.
        max_participants (`int`, *optional*, defaults to 200):
            Maximum number of participants, including those with CSV sheets.
        owner ([`~pvg_hf.app.access.Owner`], *optional*):
            The owner, who may see results and draw sheets.
    """

    folder: Path | None = None
    seconds: float = SECONDS
    num_solutions: int = NUM_SOLUTIONS
    repository: str | None = None
    is_alone: bool = False
    max_participants: int = MAX_PARTICIPANTS
    owner: Owner = field(default_factory=Owner.from_environment)


def serve(source: str, settings: StudySettings, port: int | None) -> None:
    """
    Serve the app on a run until Ctrl-C or SIGTERM, and then commit a study's last answers.

    Raises:
        ValueError: if the run cannot be opened; nothing is served then.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="pvg-"))
        os.environ.setdefault("GRADIO_TEMP_DIR", f"{folder}/gradio")  # uploads, and copies of downloads
        app = make_app(source, settings, stack)
        _, url, _ = launch(app, settings.owner, server_port=port, prevent_thread_lock=True, quiet=True)
        signal.signal(signal.SIGTERM, _interrupt)
        stack.callback(_close, app)  # before the study's uploads end, so that no answer arrives after the last commit
        addresses = describe_addresses(url, settings.owner)
        print(addresses.splitlines()[0] if is_message_run(source) else addresses, flush=True)  # it has no study
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)


def describe_addresses(url: str, owner: Owner) -> str:
    """Two lines with the app's address, which Gradio serves at `url`, and the link of the study's owner."""
    if "SPACE_HOST" in os.environ:  # in a Space, Gradio knows the address within the container only
        url = f"https://{os.environ['SPACE_HOST']}/"
    return (
        f"Open {url} in a browser; Ctrl-C ends the app.\n"
        f"Results and sheets of the study, for its owner alone: {owner.link(url)}"
    )


def _close(app: gr.Blocks) -> None:
    # Close at once: open pages keep their connections, and the server would wait for them longer than a container may take.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # cut connections are expected here
    app.server.force_exit = True
    app.close(verbose=False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A container gets SIGTERM before its disk is lost: end as on Ctrl-C, so that the last answers are committed.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the last commit
    raise KeyboardInterrupt


def make_app(source: str, settings: StudySettings, stack: ExitStack) -> gr.Blocks:
    """
    Build the app on a run.

    Args:
        source (`str`):
            A run's folder, or the name of a published run.
        settings ([`StudySettings`]):
            Settings of the study.
        stack (`ExitStack`):
            Releases the app's resources: the study's lock, its uploads, and temporary files.

    Raises:
        ValueError: if the run cannot be opened.
    """
    if is_message_run(source):
        return make_message_app(Path(source))
    run = open_run(source)
    try:
        study = _open_study(run, settings, stack)
    # E.g. no network, a study that another process has open, or a folder without write permission.
    except (HubError, ValueError, OSError) as err:
        logger.warning("There is no study: %s", err)
        study = f"The study cannot be opened: {err}"
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="pvg-")))
    return _make_pages(run, study, settings, folder)


def launch(app: gr.Blocks, owner: Owner, **options: Any) -> tuple[Any, str, str]:
    """Launch the app with its theme, scripts and access control; returns what [`~gradio.Blocks.launch`] returns."""
    script, paper = ((FOLDER / name).read_text(encoding="utf-8") for name in ("script.js", "print.css"))
    return app.queue(default_concurrency_limit=4, max_size=64).launch(
        theme=make_theme(),
        css_paths=FOLDER / "style.css",
        head=f"<style>{paper}</style><script>{script}</script>",
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        max_file_size=MAX_UPLOAD_BYTES,
        app_kwargs={"middleware": [Middleware(Gate, owner=owner)]},
        **options,
    )


def _open_study(run: OpenRun, settings: StudySettings, stack: ExitStack) -> Study:
    folder = settings.folder or study_folder(run)

    def hold() -> None:
        stack.enter_context(locked(folder, is_main=True, user="The study in {root} is run"))

    options: dict[str, Any] = {
        "seconds": settings.seconds,
        "max_participants": settings.max_participants,
        "hold": hold,
    }
    if settings.repository is not None:
        token = os.environ.get("HF_TOKEN")
        if not token:
            raise ValueError(f"answers are to go to {settings.repository}, but HF_TOKEN is not set. Set it, or leave "
                             "--study-repo out.")  # fmt: skip
        hold()  # lock the folder before it is filled from the repository
        options |= {"hold": None, "lock": stack.enter_context(uploaded(settings.repository, folder, token))}
    return open_study(run, folder, num_solutions=settings.num_solutions, **options)


def _make_pages(run: OpenRun, study: Study | str, settings: StudySettings, folder: Path) -> gr.Blocks:
    main_page = "Study" if settings.is_alone else "Solutions"
    with gr.Blocks(title=f"{run.name}: prover-verifier game", analytics_enabled=False) as app:
        gr.Navbar(main_page_name=main_page, visible=not settings.is_alone)
        if settings.is_alone:
            _put_study(app, run, study, settings)
        else:
            build_solutions_page(app, run)
    pages = {
        ("Rounds", "rounds"): partial(build_rounds_page, run=run, folder=folder),
        ("Verifiers", "verifiers"): partial(build_verifiers_page, run=run),
        ("Evaluations", "evaluations"): partial(build_evaluations_page, run=run),
        ("Score your own", "score"): partial(build_score_page, run=run),
        ("Study", "study"): partial(_put_study, run=run, study=study, settings=settings),
        ("Glossary", "glossary"): build_glossary_page,
    }
    owners = {
        ("Study results", OWNER_PAGE): partial(_put_results, run=run, study=study, settings=settings, folder=folder)
    }
    for (name, path), build in (owners if settings.is_alone else pages | owners).items():
        with app.route(name, path):
            gr.Navbar(main_page_name=main_page, visible=not settings.is_alone)
            build(app)
    return app


def _put_study(app: gr.Blocks, run: OpenRun, study: Study | str, settings: StudySettings) -> None:
    if isinstance(study, str):
        gr.HTML(notice(study, kind="problem"))
    else:
        build_study_page(app, run, study, settings.num_solutions)


def _put_results(app: gr.Blocks, run: OpenRun, study: Study | str, settings: StudySettings, folder: Path) -> None:
    if isinstance(study, str):
        gr.HTML(notice(study, kind="problem"))
    else:
        build_owner_page(app, run, study, settings.owner, folder)
