"""
Writes the report and publishes rounds on the Hub after their evaluation, and starts a run from a published round.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from pvg_hf.config import Recipe
from pvg_hf.config.trust import list_settings
from pvg_hf.core.afterwards import only_warning
from pvg_hf.core.commands import pvg_command
from pvg_hf.core.hub_access import HubError
from pvg_hf.hub.publication import publishable_rounds
from pvg_hf.hub.pull import pull_into
from pvg_hf.hub.push import push_round
from pvg_hf.report import write_report
from pvg_hf.run.layout import FIGURES, RunFolder, finished_phases
from pvg_hf.run.resume import check_unchanged

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_SIGNS = 2.0


def refresh_report(recipe: Recipe, folder: RunFolder) -> None:
    """
    Write the report again, if the recipe asks for one. An error does not end the game; the next start tries again.
    """
    if recipe.logging.report:
        with only_warning("The report could not be written; the game continues"):
            write_report(folder.root)


def is_report_due(recipe: Recipe, folder: RunFolder) -> bool:
    """Whether a round was evaluated after the report was written."""
    evaluated = [key.target(folder) for key in finished_phases(recipe, folder) if key.name == "evaluate"]
    written = folder.report.stat().st_mtime if folder.report.exists() else 0.0
    return any(file.stat().st_mtime > written for target in evaluated for file in target.glob(FIGURES))


def publish_rounds(recipe: Recipe, folder: RunFolder) -> None:
    """
    Publish all evaluated rounds without a `published` event; if there are none, the Hub is not contacted.

    A failure only raises an alert. Missing rounds are tried again after the next round, and when the run is next
    played.
    """
    target = {"namespace": recipe.hub.namespace, "run_name": recipe.hub.run_name or recipe.name}
    for round_index in publishable_rounds(folder.root):
        if folder.has_event("published", round=round_index, **target):
            continue
        repos = None
        with only_warning(f"Round {round_index} could not be published; the game continues"):
            try:
                repos = push_round(folder.root, round_index, hub=recipe.hub)
            except (HubError, ValueError, OSError) as err:  # not a defect: needs no traceback
                _report_failure(recipe, folder, round_index, err)
        if repos is None:
            return
        folder.log_event("published", round=round_index, **target, run=str(repos))


def _report_failure(recipe: Recipe, folder: RunFolder, round_index: int, err: Exception) -> None:
    message = (
        f"Round {round_index} could not be published: {err} The game continues; publishing is tried again after the"
        f" next round, when the run is next played, or by `{pvg_command('push', folder.root)}`."
    )
    logger.warning(message)
    alert = {"phase": "publish", "round": round_index, "kind": "hub", "message": message}
    if not folder.has_event("alert", **alert):
        folder.log_event("alert", **alert)
        refresh_report(recipe, folder)


def begin_from_hub(recipe: Recipe, folder: RunFolder) -> None:
    """
    Download the last published round of `resume_from_hub`, unless the run has already started.

    Raises `ValueError` if there is none, it was played with another recipe, or the Hub cannot be reached. The folder
    is then left empty.
    """
    if recipe.resume_from_hub is None or folder.recipe.exists():
        return

    def check(published: Recipe, last: int) -> None:
        check_unchanged(published, recipe, num_begun=last + 1)

    try:
        last = pull_into(folder.root, recipe.resume_from_hub, check=check, trusted=list_settings(recipe))
    except HubError as err:
        raise ValueError(f"`resume_from_hub`: {err}") from err
    folder.log_event("pulled", run=recipe.resume_from_hub, round=last)
    logger.info("Resuming after round %d of %s from the Hub", last, recipe.resume_from_hub)


def run_on_main_process(processes: PartialState, action: Callable[[], None]) -> None:
    """
    Run a long action on the main process only, while the others wait.

    The processes communicate every few seconds, because a single barrier would time out after minutes.
    """
    if processes.num_processes == 1:
        action()
        return
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(action) if processes.is_main_process else None
        while not broadcast_object_list([work is not None and work.done()])[0]:  # the main process's value
            time.sleep(SECONDS_BETWEEN_SIGNS)
        if work is not None:
            work.result()
    processes.wait_for_everyone()
