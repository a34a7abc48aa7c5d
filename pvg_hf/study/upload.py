"""A study's answers in a dataset repository, committed every few minutes."""

from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from huggingface_hub import CommitScheduler, HfApi
from huggingface_hub.errors import RepositoryNotFoundError

from pvg_hf.hub.retry import RetryPolicy

MINUTES_BETWEEN_COMMITS = 5.0
_FILES = "*.jsonl"


def schedule_uploads(
    repository: str,
    folder: Path,
    token: str,
    *,
    minutes: float = MINUTES_BETWEEN_COMMITS,
    retry: RetryPolicy | None = None,
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
        retry ([`~pvg_hf.hub.retry.RetryPolicy`], *optional*):
            How often and when the start is tried again.

    Raises:
        HubError: if the Hub cannot be reached or refuses.
    """
    retry = retry or RetryPolicy()
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.glob(_FILES)):
        retry.run(f"{repository} is read", partial(_restore, repository, folder, token))
    schedule = partial(CommitScheduler, repo_id=repository, repo_type="dataset", folder_path=folder, private=True)
    return retry.run(f"{repository} is opened", partial(schedule, every=minutes, token=token, allow_patterns=_FILES))


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
