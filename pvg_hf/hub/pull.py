"""Downloads a published round as a run's folder, from which the game can be continued."""

import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi, RepoFile
from tqdm.contrib.concurrent import thread_map

from pvg_hf.config import Recipe
from pvg_hf.config.trust import write_origin
from pvg_hf.core.disk_names import round_index_of, round_name
from pvg_hf.core.extensions import AskedSetting
from pvg_hf.core.files import sync_tree
from pvg_hf.core.hub_access import DamagedDownload, ask_hub
from pvg_hf.core.integrity import RECIPE_FILE
from pvg_hf.hub.layout import PUBLISHED_PLAYERS, RunRepos, is_record, place_of_base, place_of_player
from pvg_hf.hub.local_paths import ADAPTER_CONFIG, restore_base
from pvg_hf.hub.repository import Repository, is_same
from pvg_hf.run.layout import PILOT, STATE, RunFolder
from pvg_hf.run.phase_record import seal_copy

logger = logging.getLogger(__name__)

NUM_THREADS = 8
STAGING = ".pull"  # folder inside the run's folder that exists until the download is complete
_WHOLE = "whole"  # `.pull/whole-ROUND`: a complete download whose files are being moved to their final places
UNRELATED = {STAGING, ".lock", PILOT, STATE}  # names that may exist in a run's folder before there is a run


def download(
    repository: Repository, revision: str, target: Path, place_of: Callable[[str], str | None], workspace: Path
) -> None:
    """
    Download files of a repository at a tag into the folder `target`.

    `place_of` maps a path in the repository to one in the folder, or to `None` if the file is not wanted. `workspace`
    holds partial downloads, which a later call resumes.

    Raises:
        HubError: if the Hub cannot be reached or refuses, or a file is damaged in every attempt.
    """
    tree = repository.tree(revision)
    places = {path: place for path in tree if (place := place_of(path)) is not None}
    logger.info("%s, %s: %d of %d files", repository.repo_id, revision, len(places), len(tree))

    def get(path: str) -> None:
        file = target / places[path]
        if file.exists() and is_same(file, tree[path]):
            return
        came = ask_hub(
            f"{path} of {repository.repo_id} is downloaded",
            lambda: _get_whole(repository, revision, tree[path], workspace),
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        os.replace(came, file)  # only checked files reach the folder, each in one step

    shown = {"desc": f"{repository.repo_id} {revision}", "unit": "file", "disable": not sys.stderr.isatty()}
    thread_map(get, places, max_workers=NUM_THREADS, leave=False, **shown)


def _get_whole(repository: Repository, revision: str, entry: RepoFile, workspace: Path) -> Path:
    # The Hub's client checks only the length of a file, so its hash is checked here.
    file = Path(
        repository.api.hf_hub_download(
            repository.repo_id, entry.path, repo_type=repository.repo_type, revision=revision, local_dir=workspace
        )
    )
    if not is_same(file, entry):
        file.unlink()
        raise DamagedDownload(f"{entry.path} does not match the hash that the Hub announced")
    return file


def pull_round(
    run: str,
    round_index: int | Literal["latest"] = "latest",
    *,
    output_dir: str | Path = "runs",
    with_earlier_players: bool = False,
    with_provers: bool = True,
) -> Path:
    """
    Download a published round: all solutions, figures and records up to it, and its players.

    The game can be continued from there.

    Args:
        run (`str`):
            `NAMESPACE/RUN`, as in `hub.namespace` and `hub.run_name`.
        round_index (`int` or `"latest"`, defaults to `"latest"`):
            The round, from 0.
        output_dir (`str` or `Path`, defaults to `"runs"`):
            Folder in which the run's folder is made; its name is the `name` of the recipe.
        with_earlier_players (`bool`, defaults to `False`):
            Whether to download the players of earlier rounds, too. Continuing a game does not need them.
        with_provers (`bool`, defaults to `True`):
            Whether to download the provers. Continuing a game needs them; reading and scoring solutions does not.

    Returns:
        `Path`: the run's folder. Files with unknown names, such as pickles, are not downloaded.

    Raises:
        HubError: if the Hub cannot be reached or refuses.
        ValueError: if there is no such round, or the run's folder already exists.
    """
    source = _Source.find(run, round_index)
    output = Path(output_dir)
    workspace = output / f".{source.repos.run}{STAGING}"
    staging = workspace / source.commit
    recipe = source.fetch_recipe(staging)
    target = output / recipe.name
    if target.exists():
        shutil.rmtree(workspace)
        raise ValueError(f"{target} already exists. Move it away, or set another `output_dir`.")
    source.fetch_records(staging)
    source.fetch_players(recipe, staging, with_earlier=with_earlier_players, with_provers=with_provers)
    write_origin(staging / "run", run, source.round_index)
    _complete(staging / "run", target)
    shutil.rmtree(workspace)
    return target


def published_commit(run: str, round_index: int | Literal["latest"] = "latest") -> str:
    """Commit of the solutions repository that a published round's tag points to; errors as in [`pull_round`]."""
    return _Source.find(run, round_index).commit


def pull_into(
    root: Path, run: str, *, check: Callable[[Recipe, int], None] | None = None, trusted: Sequence[AskedSetting] = ()
) -> int:
    """
    Fill a new run's folder with the last published round, or resume an interrupted download of it; return the round.

    `check` is called with the published recipe and the round before anything else is downloaded. It raises
    `ValueError` for a run that cannot be continued. `trusted` is code that the user's own recipe names; it may run
    without confirmation.

    Raises:
        HubError: if the Hub cannot be reached or refuses.
        ValueError: if no round is published, the folder holds other files, or `check` refuses; the folder is then
        unchanged.
    """
    finished = next((root / STAGING).glob(f"{_WHOLE}-*"), None)
    if finished is not None:
        return _move_in(finished, root)
    others = sorted({path.name for path in root.iterdir()} - UNRELATED) if root.exists() else []
    if others:
        raise ValueError(
            f"{root} holds {', '.join(others)} but no {RECIPE_FILE}: it is not a run that can be resumed, and pulling"
            " would overwrite it. Delete it, or give the run another `output_dir`."
        )
    source = _Source.find(run, "latest")
    staging = root / STAGING / source.commit
    recipe = source.fetch_recipe(staging)
    if check is not None:
        try:
            check(recipe, source.round_index)
        except ValueError:
            shutil.rmtree(root / STAGING)
            raise
    source.fetch_records(staging)
    source.fetch_players(recipe, staging)
    write_origin(staging / "run", run, source.round_index, trusted)
    whole = root / STAGING / f"{_WHOLE}-{source.round_index}"
    _complete(staging / "run", whole)
    return _move_in(whole, root)


def _complete(staged: Path, place: Path) -> None:
    """
    Write the digests of a downloaded run and rename its folder to `place`, once all of its files are on the disk.
    """
    # Local digests can be trusted: the download compared each file with the Hub's hash.
    seal_copy(RunFolder(staged))
    sync_tree(staged)
    os.replace(staged, place)


def _move_in(whole: Path, root: Path) -> int:
    """
    Move a complete download to the run's folder, and return its round.

    If a first call is interrupted, a second one finds `whole` by its name and moves the remaining files.
    """
    # The recipe is moved last: a folder without it is not yet a run.
    for path in sorted(whole.iterdir(), key=lambda path: path.name == RECIPE_FILE):
        os.replace(path, root / path.name)
    round_index = int(whole.name.removeprefix(f"{_WHOLE}-"))
    shutil.rmtree(root / STAGING)
    return round_index


@dataclass(frozen=True)
class _Source:
    """A published round. Its methods download it to `staging / "run"`, and keep partial downloads in `staging`."""

    repos: RunRepos
    round_index: int
    commit: str  # of the solutions repository; names the staging folder, so that downloads of two commits never mix
    api: HfApi

    @classmethod
    def find(cls, run: str, round_index: int | Literal["latest"]) -> "_Source":
        repos, api = RunRepos.parse(run), HfApi(library_name="pvg_hf")
        tags = Repository(api, repos.solutions, "dataset").tags()
        rounds = sorted(index for name in tags if (index := round_index_of(name)) is not None)
        if not rounds:
            raise ValueError(f"No round of {repos} is published yet: {repos.solutions} has no tag `round-000`.")
        if round_index != "latest" and round_index not in rounds:
            raise ValueError(f"Round {round_index} of {repos} is not published; published rounds: {rounds}.")
        found = rounds[-1] if round_index == "latest" else round_index
        return cls(repos, found, tags[round_name(found)], api)

    def fetch_recipe(self, staging: Path) -> Recipe:
        """Download only the recipe: it names the run's folder, which must be free before the rest is downloaded."""
        self._fetch_solutions(staging, lambda path: path == RECIPE_FILE)
        return RunFolder.find(staging / "run").read_recipe()

    def fetch_records(self, staging: Path) -> None:
        """Download the solutions, figures and records of all rounds so far."""
        self._fetch_solutions(staging, lambda path: is_record(path, self.round_index))

    def _fetch_solutions(self, staging: Path, is_wanted: Callable[[str], bool]) -> None:
        repo_id = self.repos.solutions
        self._fetch("dataset", repo_id, self.round_index, lambda path: path if is_wanted(path) else None, staging)

    def fetch_players(
        self, recipe: Recipe, staging: Path, *, with_earlier: bool = False, with_provers: bool = True
    ) -> None:
        """Download the players of the round, or of all rounds so far, and their initial weights."""
        rounds = range(0 if with_earlier else self.round_index, self.round_index + 1)
        for player, k in product(PUBLISHED_PLAYERS if with_provers else ("verifier",), rounds):
            of_round = recipe.for_round(k)
            config = of_round.player(player)
            has_own_base, is_separate = config.is_made, player == "prover" and of_round.prover.is_separate
            place = partial(place_of_player, player, round_index=k, has_own_base=has_own_base, is_separate=is_separate)
            self._fetch("model", self.repos.repo_id(player), k, place, staging)
            if has_own_base and config.lora is not None:
                self._fetch("model", self.repos.base(player), k, partial(place_of_base, player), staging)
            base = RunFolder(staging / "run").models / player
            for file in (staging / "run" / player / round_name(k)).rglob(ADAPTER_CONFIG):
                name = Path(os.path.relpath(base, file.parent)).as_posix() if has_own_base else config.model
                restore_base(file, self.repos.base(player), name, config.revision)

    def _fetch(
        self, repo_type: str, repo_id: str, k: int, place_of: Callable[[str], str | None], staging: Path
    ) -> None:
        repository = Repository(self.api, repo_id, repo_type)
        download(repository, round_name(k), staging / "run", place_of, staging / repo_id.rpartition("/")[2])
