"""A study's answers in a dataset repository, committed every few minutes."""

from contextlib import suppress
from pathlib import Path

from huggingface_hub import CommitScheduler, snapshot_download
from huggingface_hub.errors import RepositoryNotFoundError

MINUTES_BETWEEN_COMMITS = 5.0
_FILES = "*.jsonl"


def schedule_uploads(
    repository: str, folder: Path, token: str, *, minutes: float = MINUTES_BETWEEN_COMMITS
) -> CommitScheduler:
    """
    Commit the files of a study every few minutes. Its `lock` is to be held while they are written, and `stop` commits
    a last time.

    An empty folder, as a Space has after a restart, is filled from the repository first, so that the study goes on.

    Args:
        repository (`str`):
            A dataset repository, `org/name`; made, private, if it is not there.
        folder (`Path`):
            Of the study.
        token (`str`):
            Of an account that may write to it. It is kept in memory only.
        minutes (`float`, *optional*, defaults to `5.0`):
            Between two commits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob(_FILES)):
        with suppress(RepositoryNotFoundError):  # of a new study: the scheduler makes it
            snapshot_download(repository, repo_type="dataset", local_dir=folder, allow_patterns=_FILES, token=token)
    return CommitScheduler(
        repo_id=repository,
        repo_type="dataset",
        folder_path=folder,
        every=minutes,
        private=True,
        token=token,
        allow_patterns=_FILES,
    )
