"""The study's app: one page for participants, and one for the study's owner."""

import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from pvg_hf.app.app import serve, show_address
from pvg_hf.app.render import notice
from pvg_hf.app.runs import OpenRun, open_run
from pvg_hf.core.hub_access import HubError
from pvg_hf.experimental.study import MAX_PARTICIPANTS, NUM_SOLUTIONS, SECONDS
from pvg_hf.experimental.study.access import OWNER_PAGE, Owner, StudyGate
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
    Settings of a study.

    Args:
        folder: Folder of the study's files; by default that of [`~pvg_hf.experimental.study.legibility.study_folder`].
        seconds, num_solutions: Time limit for a solution, and number of solutions per participant.
        repository: Dataset repository that the answers are committed to, with the token in `HF_TOKEN`.
        max_participants: Maximum number of participants, including those with CSV sheets.
        owner: The owner, who may see results and draw sheets.
    """

    folder: Path | None = None
    seconds: float = SECONDS
    num_solutions: int = NUM_SOLUTIONS
    repository: str | None = None
    max_participants: int = MAX_PARTICIPANTS
    owner: Owner = field(default_factory=Owner.from_environment)

    @property
    def gate(self) -> Middleware:
        return Middleware(StudyGate, owner=self.owner)


def serve_study(source: str, settings: StudySettings, port: int | None) -> None:
    """
    Serve the study of a run until Ctrl-C or SIGTERM, and then commit the last answers.

    Raises `ValueError` if the run cannot be opened; nothing is served then.
    """
    serve(
        lambda stack: make_study_app(open_run(source), settings, stack),
        settings.gate,
        port,
        lambda url: describe_addresses(url, settings.owner),
    )


def describe_addresses(url: str, owner: Owner) -> str:
    """Two lines with the study's address and the link of its owner."""
    return f"{show_address(url)}\nResults and sheets of the study, for its owner alone: {owner.link(url)}"


def make_study_app(run: OpenRun, settings: StudySettings, stack: ExitStack) -> gr.Blocks:
    """
    Build the app of a run's study.

    Args:
        stack: Releases the app's resources: the study's lock, its uploads, and temporary files.
    """
    try:
        study: Study | str = _open_study(run, settings, stack)
    # E.g. no network, a study that another process has open, or a folder without write permission.
    except (HubError, ValueError, OSError) as err:
        logger.warning("There is no study: %s", err)
        study = f"The study cannot be opened: {err}"
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="pvg-")))
    with gr.Blocks(title=f"{run.name}: legibility study", analytics_enabled=False) as app:
        gr.Navbar(visible=False)
        if isinstance(study, str):
            gr.HTML(notice(study, kind="problem"))
        else:
            build_study_page(app, run, study, settings.num_solutions)
    with app.route("Study results", OWNER_PAGE):
        gr.Navbar(visible=False)
        if isinstance(study, str):
            gr.HTML(notice(study, kind="problem"))
        else:
            build_owner_page(app, run, study, settings.owner, folder)
    return app


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
                             "--repo out.")  # fmt: skip
        hold()  # lock the folder before it is filled from the repository
        options |= {"hold": None, "lock": stack.enter_context(uploaded(settings.repository, folder, token))}
    return open_study(run, folder, num_solutions=settings.num_solutions, **options)
