"""A study's answers in a dataset repository, committed every minute and at the end."""

import logging
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from huggingface_hub import CommitScheduler, HfApi
from huggingface_hub.errors import RepositoryNotFoundError

from pvg_hf.core.hub_access import RetryPolicy

logger = logging.getLogger(__name__)

MINUTES_BETWEEN_COMMITS = 1.0
"""At most this much is lost with a machine that ends without a signal; nothing is committed while nothing was answered."""

SECONDS_FOR_THE_LAST_COMMIT = 60.0
_FILES = "*.jsonl"


@contextmanager
def uploaded(
    repository: str,
    folder: Path,
    token: str,
    *,
    minutes: float = MINUTES_BETWEEN_COMMITS,
    retry: RetryPolicy | None = None,
) -> Iterator[AbstractContextManager]:
    """
    Commit the files of a study every minute if they have changed, and a last time when the block ends. If that fails, or takes longer than
    a minute, a warning says so: the files stay in the folder.

    An empty folder, as a Space has after a restart, is filled from the repository first, so that the study goes on.

    Args:
        repository (`str`):
            A dataset repository, `org/name`; made, private, if it is not there.
        folder (`Path`):
            Of the study.
        token (`str`):
            Of an account that may write to it. It is kept in memory only.
        minutes (`float`, *optional*, defaults to `1.0`):
            Between two commits.
        retry ([`~pvg_hf.core.hub_access.RetryPolicy`], *optional*):
            How often and when the start is tried again.

    Yields:
        `AbstractContextManager`: a lock, to be held while the files are written.

    Raises:
        HubError: if the Hub cannot be reached or refuses.
    """
    retry = retry or RetryPolicy()
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob(_FILES)):
        retry.run(f"{repository} is read", partial(_restore, repository, folder, token))
    schedule = partial(CommitScheduler, repo_id=repository, repo_type="dataset", folder_path=folder, private=True)
    scheduler = retry.run(
        f"{repository} is opened", partial(schedule, every=minutes, token=token, allow_patterns=_FILES)
    )
    try:
        yield scheduler.lock
    finally:
        _commit_last(scheduler, repository)


def _restore(repository: str, folder: Path, token: str) -> None:
    """
    Get each file by its name: of a repository that cannot be reached, `snapshot_download` takes a folder as it is for what
    there is, and the answers so far would be overwritten.
    """
    api = HfApi(library_name="pvg_hf", token=token)
    try:
        found = api.repo_info(repository, repo_type="dataset")
    except RepositoryNotFoundError:  # of a new study: the scheduler makes it
        return
    for path in (file.rfilename for file in found.siblings or ()):
        if fnmatch(path, _FILES):
            api.hf_hub_download(repository, path, repo_type="dataset", revision=found.sha, local_dir=folder)


def _commit_last(scheduler: CommitScheduler, repository: str) -> None:
    """A scheduler that is stopped commits nothing any more, not even what it would at the end of the process."""
    commit = scheduler.trigger()
    try:
        wait([commit], timeout=SECONDS_FOR_THE_LAST_COMMIT)
    finally:
        scheduler.stop()
    reason = commit.exception() if commit.done() else f"no reply in {SECONDS_FOR_THE_LAST_COMMIT:.0f} s"
    if reason is not None:
        logger.warning(
            "The last answers were not committed to %s (%s). They are in %s: start the app with this folder again, or upload "
            "its files yourself.",
            repository,
            reason,
            scheduler.folder_path,
        )
