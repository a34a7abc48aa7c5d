"""Gets a published round back as a run's folder that can be played on."""

import logging
import os
import shutil
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi

from pvg_hf.config import Recipe
from pvg_hf.data.schema import round_name
from pvg_hf.hub.download import download
from pvg_hf.hub.layout import RECIPE, place_of_player, place_of_record
from pvg_hf.hub.names import PLAYERS, RunRepos
from pvg_hf.hub.publication import read_recipe
from pvg_hf.hub.repository import Repository
from pvg_hf.hub.retry import RetryPolicy

logger = logging.getLogger(__name__)

STAGING = ".pull"  # in the run's folder, until everything is there
UNRELATED = {STAGING, ".lock"}  # what may stand in a run's folder before there is a run


def pull_round(
    run: str,
    round_index: int | Literal["latest"] = "latest",
    *,
    output_dir: str | Path = "runs",
    with_earlier_players: bool = False,
    retry: RetryPolicy | None = None,
) -> Path:
    """
    Get a published round: all solutions, figures and records up to it, and its players. The game can be played on from
    there.

    Args:
        run (`str`):
            `NAMESPACE/RUN`, as in `hub.namespace` and `hub.run_name`.
        round_index (`int` or `"latest"`, defaults to `"latest"`):
            Which round.
        output_dir (`str` or `Path`, defaults to `"runs"`):
            Where the run's folder is made, under the `name` of its recipe.
        with_earlier_players (`bool`, defaults to `False`):
            Get the players of the rounds before it too; a game goes on without them.
        retry ([`RetryPolicy`], *optional*):
            How often and when something is tried again.

    Returns:
        `Path`: the run's folder. Files of no known name, pickles among them, are left where they are.

    Raises:
        HubError: if the Hub cannot be reached or refuses.
        ValueError: if there is no such round, or a folder of the run's name is there already.
    """
    retry = retry or RetryPolicy()
    repos = RunRepos.parse(run)
    output = Path(output_dir)
    staging = output / f".{repos.run}{STAGING}"
    folder = fetch(repos, round_index, staging, with_earlier_players=with_earlier_players, retry=retry)
    target = output / read_recipe(folder).name
    if target.exists():
        raise ValueError(f"{target} is there already. Move it away, or give another `output_dir`.")
    os.replace(folder, target)
    shutil.rmtree(staging)
    return target


def pull_into(root: Path, run: str, *, retry: RetryPolicy | None = None) -> int:
    """
    Begin a run's folder with the last round that was published.

    Args:
        root (`Path`):
            The run's folder. Nothing is done if a run stands in it.
        run (`str`), retry ([`RetryPolicy`], *optional*):
            As of [`pull_round`].

    Returns:
        `int`: the round.

    Raises:
        HubError: if the Hub cannot be reached or refuses.
        ValueError: if no round is published, or other files are in the way.
    """
    others = sorted({path.name for path in root.iterdir()} - UNRELATED) if root.exists() else []
    if others:
        raise ValueError(
            f"{root} holds {', '.join(others)} but no {RECIPE}: it is no run that can be gone on with, and nothing is pulled "
            "over it. Delete it, or give the run another `output_dir`."
        )
    folder = fetch(RunRepos.parse(run), "latest", root / STAGING, retry=retry or RetryPolicy())
    last = max(int(path.name.removeprefix("round-")) for path in (folder / "evaluation").iterdir())
    # The recipe comes last: without it there is no run.
    for path in sorted(folder.iterdir(), key=lambda path: path.name == RECIPE):
        os.replace(path, root / path.name)
    shutil.rmtree(root / STAGING)
    return last


def fetch(
    repos: RunRepos,
    round_index: int | Literal["latest"],
    staging: Path,
    *,
    with_earlier_players: bool = False,
    retry: RetryPolicy,
) -> Path:
    """
    Download a round into a folder within `staging`, which keeps what has come where that fails; returns the folder.

    Raises:
        HubError, ValueError: as of [`pull_round`].
    """
    api = HfApi(library_name="pvg_hf")
    last = _find_round(repos, round_index, api, retry)
    folder = staging / "run"
    solutions = Repository(api, repos.solutions, "dataset", retry)
    download(solutions, round_name(last), folder, lambda path: place_of_record(path, last), staging / "solutions")
    recipe = read_recipe(folder)
    for player in PLAYERS:
        repository = Repository(api, repos.player(player), "model", retry)
        for k in range(last + 1) if with_earlier_players else (last,):

            def place(path: str, player: str = player, k: int = k) -> str | None:
                return place_of_player(player, path, k, has_own_base=_has_own_base(recipe, player))

            download(repository, round_name(k), folder, place, staging / player)
    return folder


def _find_round(repos: RunRepos, round_index: int | Literal["latest"], api: HfApi, retry: RetryPolicy) -> int:
    tags = Repository(api, repos.solutions, "dataset", retry).tags()
    rounds = sorted(int(name.removeprefix("round-")) for name in tags if name.startswith("round-"))
    if not rounds:
        raise ValueError(f"No round of {repos} is published yet: {repos.solutions} has no tag `round-000`.")
    if round_index == "latest":
        return rounds[-1]
    if round_index not in rounds:
        raise ValueError(f"Round {round_index} of {repos} is not published; there are {rounds}.")
    return round_index


def _has_own_base(recipe: Recipe, player: str) -> bool:
    config = {"prover": recipe.prover, "verifier": recipe.verifier}[player]
    return bool(config.scratch or config.warmup)
