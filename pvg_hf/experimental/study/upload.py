"""Commits a study's answers to a dataset repository, every minute and at the end."""

import logging
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from huggingface_hub import CommitScheduler, HfApi
from huggingface_hub.errors import RepositoryNotFoundError

from pvg_hf.core.hub_access import ask_hub

logger = logging.getLogger(__name__)

MINUTES_BETWEEN_COMMITS = 1.0
"""Time between two commits, which is also the most that a sudden end of the machine loses. Unchanged files are not
committed."""

SECONDS_FOR_THE_LAST_COMMIT = 60.0
_FILES = "*.jsonl"


@contextmanager
def uploaded(
    repository: str, folder: Path, token: str, *, minutes: float = MINUTES_BETWEEN_COMMITS
) -> Iterator[AbstractContextManager]:
    """
    Commit the files of a study while a block runs: every minute if they have changed, and once at the end.

    If the last commit fails or takes longer than a minute, a warning says that the files are still in the folder. An
    empty folder, as on a Space after a restart, is first filled from the repository, so that the study resumes.

    Args:
        repository: A dataset repository, `org/name`. If it does not exist, it is created as a private one.
        token: Token of an account with write access. It is kept in memory only.
    Yields: a lock that must be held while a file is written.
    Raises `HubError` if the Hub cannot be reached or refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob(_FILES)):
        ask_hub(f"{repository} is read", partial(_restore, repository, folder, token))
    schedule = partial(CommitScheduler, repo_id=repository, repo_type="dataset", folder_path=folder, private=True)
    scheduler = ask_hub(
        f"{repository} is opened", partial(schedule, every=minutes, token=token, allow_patterns=_FILES)
    )
    try:
        yield scheduler.lock
    finally:
        _commit_last(scheduler, repository)


def _restore(repository: str, folder: Path, token: str) -> None:
    # Not by `snapshot_download`: if the repository cannot be reached, it takes the empty folder for the current state,
    # and the next commit would overwrite the answers so far.
    api = HfApi(library_name="pvg_hf", token=token)
    try:
        found = api.repo_info(repository, repo_type="dataset")
    except RepositoryNotFoundError:  # a new study: the scheduler creates the repository
        return
    for path in (file.rfilename for file in found.siblings or ()):
        if fnmatch(path, _FILES):
            api.hf_hub_download(repository, path, repo_type="dataset", revision=found.sha, local_dir=folder)


def _commit_last(scheduler: CommitScheduler, repository: str) -> None:
    # A stopped scheduler skips its own commit at the end of the process, so that the last one is made first.
    commit = scheduler.trigger()
    try:
        wait([commit], timeout=SECONDS_FOR_THE_LAST_COMMIT)
    finally:
        scheduler.stop()
    reason = commit.exception() if commit.done() else f"no reply in {SECONDS_FOR_THE_LAST_COMMIT:.0f} s"
    if reason is not None:
        logger.warning(
            "The last answers were not committed to %s (%s). They are in %s: start the app with this folder again, or"
            " upload its files yourself.",
            repository,
            reason,
            scheduler.folder_path,
        )
