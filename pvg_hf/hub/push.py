"""
Publishes rounds: uploads new or changed files, then sets the tags. A round with a tag on its solutions is published.
"""

import json
import logging
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from huggingface_hub import HfApi

from pvg_hf.config import Recipe
from pvg_hf.config.sections import HubConfig
from pvg_hf.config.trust import admit_recipe
from pvg_hf.core.disk_names import round_index_of, round_name
from pvg_hf.core.hub_access import ask_hub
from pvg_hf.core.integrity import RECIPE_FILE
from pvg_hf.data.pairs.build import add_labels, round_pairs
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.hub.cards.dataset import solutions_card
from pvg_hf.hub.cards.highlights import draw_picture
from pvg_hf.hub.cards.player import base_card, player_card, role_prompts
from pvg_hf.hub.layout import (
    BASES,
    CARD,
    PICTURE,
    PROMPTS,
    PUBLISHED_PLAYERS,
    SOLUTIONS,
    RunRepos,
    is_ours,
    is_result,
)
from pvg_hf.hub.local_paths import published_recipe
from pvg_hf.hub.publication import Files, Publication, open_publication
from pvg_hf.hub.repository import Repository, is_same
from pvg_hf.run.layout import JUDGING, RunFolder
from pvg_hf.run.resume import read_played_recipe

logger = logging.getLogger(__name__)


def push_round(run_folder: str | Path, round_index: int, *, hub: HubConfig | None = None) -> RunRepos:
    """
    Publish a round of a run: its players, all solutions up to it, and a tag on each of the repositories.

    A failed call can simply be repeated, as files that are already there are not sent again. If the newest round is
    published again, evaluations that were stored since then are added to its solutions, and their tag is moved.

    Args:
        run_folder (`str` or `Path`):
            `runs/NAME`.
        round_index (`int`):
            The round, from 0; it must be evaluated.
        hub ([`~pvg_hf.config.sections.HubConfig`], *optional*):
            Settings of the publication; by default the section of the run's recipe. `push` is ignored.

    Returns:
        [`RunRepos`]: the repositories.

    Raises:
        HubError: if the Hub cannot be reached or refuses; local files are not changed.
        ValueError: if the round is not finished, a repository name is invalid, a repository is public but should be
            private, or the round is already published with other content.
    """
    root = Path(run_folder)
    recipe = read_played_recipe(RunFolder.find(root))
    if hub is None:
        admit_recipe(recipe, "hub")
        hub = recipe.hub
    api = HfApi(library_name="pvg_hf")
    repos = find_repos(recipe, hub, api)
    publication = open_publication(root, round_index, repos, license=hub.license)
    repositories = {
        kind: Repository(api, repos.repo_id(kind), "dataset" if kind == SOLUTIONS else "model")
        for kind in publication.kinds
    }
    for repository in repositories.values():
        repository.ensure(is_private=hub.private)  # refuses a public repository before anything is uploaded
    _remove_stale_tags(publication, repositories, overwrite=hub.overwrite)
    _publish(publication, repositories)
    return repos


def find_repos(recipe: Recipe, hub: HubConfig, api: HfApi) -> RunRepos:
    """Names of the repositories of a recipe. The default namespace is the token's owner."""
    namespace = hub.namespace or ask_hub("The token's owner is asked for", api.whoami)["name"]
    return RunRepos(namespace, hub.run_name or recipe.name)


def _publish(publication: Publication, repositories: dict[str, Repository]) -> None:
    """
    Upload to every repository that lacks the tag, then set the tags, that of the solutions last.

    Raises:
        ValueError: if somebody else has set the tag on other content in the meantime.
    """
    tag, message = publication.tag, f"{publication.tag} of {publication.recipe.name}"
    todo = {kind: repository for kind, repository in repositories.items() if tag not in repository.tags()}
    is_moved = SOLUTIONS not in todo and _has_new_judgements(publication, repositories[SOLUTIONS])
    if is_moved:
        todo[SOLUTIONS] = repositories[SOLUTIONS]
    with tempfile.TemporaryDirectory() as workspace:
        commits = {}
        # Upload everything before the first tag, so that a failed upload leaves no tag.
        for kind, repository in todo.items():
            files = {**publication.results(kind), **publication.copies(kind)}
            files |= derived_files(publication, kind, Path(workspace))
            commits[kind] = repository.upload(files, partial(is_ours, kind), message)
    for kind, commit in commits.items():
        if is_moved and kind == SOLUTIONS:
            repositories[kind].remove_tag(tag)
        repositories[kind].set_tag(tag, commit)
        # With `exist_ok`, the Hub does not report a tag that somebody else set in the meantime.
        if repositories[kind].tags().get(tag) != commit:
            _remove_stale_tags(publication, repositories, overwrite=False)
        logger.info("Published %s, %s", repositories[kind].repo_id, tag)


def _has_new_judgements(publication: Publication, solutions: Repository) -> bool:
    """Whether evaluations have been stored since the round was published; those of all rounds go with the newest."""
    files = {path: source for path, source in publication.results(SOLUTIONS).items() if path.startswith(f"{JUDGING}/")}
    if not files or any(_is_later(name, publication) for name in solutions.tags()):
        return False
    tree = solutions.tree(publication.tag)
    return any(not is_same(source, tree.get(path)) for path, source in files.items())


def _remove_stale_tags(publication: Publication, repositories: dict[str, Repository], *, overwrite: bool) -> None:
    """
    Remove the round's tag if it is on other content, and the tags of later rounds, which depend on that content.

    Raises:
        ValueError: if there are such tags and `overwrite` is not set.
    """
    tags = {kind: repository.tags() for kind, repository in repositories.items()}
    later = {kind: [name for name in tags[kind] if _is_later(name, publication)] for kind in tags}
    others = {
        kind: _differing_paths(publication, kind, repositories[kind]) for kind in tags if publication.tag in tags[kind]
    }
    problems = [
        f"- {repositories[kind].repo_id} has other content of {_shorten_list(paths)}"
        for kind, paths in others.items()
        if paths
    ]
    problems += [
        f"- {repositories[kind].repo_id} has later rounds without it: {', '.join(later[kind])}"
        for kind in tags
        if later[kind] and kind not in others
    ]
    if not problems:
        return
    if not overwrite:
        lines = [f"{publication.tag} of {publication.repos} cannot be published:", *problems]
        remedy = "or set `hub.overwrite: true` to replace the round and unpublish later ones."
        raise ValueError("\n".join([*lines, f"Give the run another `hub.run_name`, {remedy}"]))
    for kind in reversed(tags):  # solutions first: without their tag, a round counts as unpublished
        for name in [*later[kind], *([publication.tag] if others.get(kind) else [])]:
            repositories[kind].remove_tag(name)


def _is_later(tag: str, publication: Publication) -> bool:
    """Whether a tag is that of a later round."""
    index = round_index_of(tag)
    return index is not None and index > publication.round_index


def _differing_paths(publication: Publication, kind: str, repository: Repository) -> list[str]:
    """Paths of results that are missing, different or superfluous at the tag."""
    tree, files = repository.tree(publication.tag), publication.results(kind)
    there = {path for path in tree if is_ours(kind, path)}
    wanted = {path for path in {*files, *there} - publication.copies(kind).keys() if is_result(path)}
    return sorted(path for path in wanted if path not in files or not is_same(files[path], tree.get(path)))


def _shorten_list(paths: list[str], number: int = 3) -> str:
    shown = ", ".join(paths[:number])
    return shown if len(paths) <= number else f"{shown} and {len(paths) - number} more"


def derived_files(publication: Publication, kind: str, workspace: Path) -> Files:
    """
    Build a repository's derived files, by path.

    Every repository but a base one gets a card with a picture, and the recipe without local paths. The prover's also
    gets its prompts, and the solutions' the pairs of each round, which are written to the empty folder `workspace`; it
    must exist until they are published. A base repository only gets a card.
    """
    if kind in BASES.values():
        return {CARD: base_card(publication, kind).encode()}
    files: Files = {RECIPE_FILE: published_recipe(publication.recipe)}
    if picture := draw_picture(publication):
        files[PICTURE] = picture
    if kind == "prover":
        files[PROMPTS] = json.dumps(role_prompts(publication.recipe), indent=2).encode()
    if kind in PUBLISHED_PLAYERS:
        return {**files, CARD: player_card(publication, kind).encode()}
    pairs = dict(_write_pairs(publication, workspace))
    return {**files, **pairs, CARD: solutions_card(publication, next(iter(pairs.values()))).encode()}


def _write_pairs(publication: Publication, workspace: Path) -> Iterator[tuple[str, Path]]:
    # Pairs follow from the pool and the recipe, so that a run's folder does not store them.
    for k in range(publication.round_index + 1):
        files = publication.folder.training_pools(k)
        for part, split in zip(VERIFIER_PARTS, ("train", "heldout"), strict=True):
            pairs, _ = round_pairs(publication.recipe.for_round(k), files, k, part)
            path = f"pairs/{round_name(k)}/{split}.parquet"
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            add_labels(pairs).to_parquet(workspace / path, write_page_checksum=True)
            yield path, workspace / path
