"""Builds the files that exist only on the Hub: cards, prompts, the recipe without local paths, and each round's pairs."""

import json
from collections.abc import Iterator
from pathlib import Path

from pvg_hf.core.integrity import RECIPE_FILE
from pvg_hf.data.pairs.build import add_labels
from pvg_hf.data.pairs.round_pairs import round_pairs
from pvg_hf.data.schema import round_name
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.hub.cards.dataset import solutions_card
from pvg_hf.hub.cards.player import base_card, player_card, role_prompts
from pvg_hf.hub.layout import BASES, CARD, PROMPTS, PUBLISHED_PLAYERS
from pvg_hf.hub.local_paths import published_recipe
from pvg_hf.hub.publication import Files, Publication


def derived_files(publication: Publication, kind: str, workspace: Path) -> Files:
    """
    Build a repository's derived files, by path.

    Every repository but a base one gets a card and the recipe without local paths. The prover's also gets its prompts, and
    the solutions' the pairs of each round. A base repository only gets a card.

    Args:
        publication ([`Publication`]):
            The round.
        kind (`str`):
            Kind of the repository, e.g. `prover`.
        workspace (`Path`):
            An empty folder for the new files; it must exist until they are published.
    """
    if kind in BASES.values():
        return {CARD: base_card(publication, kind).encode()}
    files: Files = {RECIPE_FILE: published_recipe(publication.recipe)}
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
