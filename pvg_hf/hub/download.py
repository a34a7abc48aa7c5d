"""Downloads files of a revision and makes sure that each is what the Hub said it would be."""

import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from huggingface_hub import RepoFile
from tqdm.auto import tqdm

from pvg_hf.hub.repository import Repository, is_same
from pvg_hf.hub.retry import DamagedDownload

logger = logging.getLogger(__name__)

NUM_THREADS = 8


def download(
    repository: Repository,
    revision: str,
    target: Path,
    place_of: Callable[[str], str | None],
    workspace: Path,
) -> list[str]:
    """
    Put files of a repository into a folder; returns where in it they are.

    Args:
        repository ([`Repository`]):
            Where they are.
        revision (`str`):
            A tag.
        target (`Path`):
            The folder.
        place_of (`Callable`):
            Where in the folder a file of the repository belongs; `None` for those that are not wanted.
        workspace (`Path`):
            Keeps what has come of a download that failed.

    Raises:
        HubError: if the Hub cannot be reached or refuses, or a file comes damaged each time.
    """
    tree = repository.tree(revision)
    places = {path: place for path in tree if (place := place_of(path)) is not None}
    logger.info("%s, %s: %d of %d files", repository.repo_id, revision, len(places), len(tree))

    def get(path: str) -> None:
        file = target / places[path]
        if file.exists() and is_same(file, tree[path]):
            return
        came = repository.retry.run(
            f"{path} of {repository.repo_id} is downloaded",
            lambda: _get_whole(repository, revision, tree[path], workspace),
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        os.replace(came, file)

    with ThreadPoolExecutor(NUM_THREADS) as threads:
        for _ in tqdm(
            threads.map(get, places),
            total=len(places),
            desc=f"{repository.repo_id} {revision}",
            unit="file",
            disable=not sys.stderr.isatty(),
            leave=False,
        ):
            pass
    return list(places.values())


def _get_whole(repository: Repository, revision: str, entry: RepoFile, workspace: Path) -> Path:
    """A file with the bytes that its hash stands for; the client itself looks at the length alone."""
    file = Path(
        repository.api.hf_hub_download(
            repository.repo_id,
            entry.path,
            repo_type=repository.repo_type,
            revision=revision,
            local_dir=workspace,
        )
    )
    if not is_same(file, entry):
        file.unlink()
        raise DamagedDownload(f"{entry.path} came with other bytes than the Hub announced")
    return file
