"""What is written for the Hub alone: cards, and the pairs of each round."""

from collections.abc import Iterator
from pathlib import Path

from pvg_hf.data.pairs import with_labels
from pvg_hf.data.rounds import round_pairs, training_files
from pvg_hf.data.schema import round_name
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.hub.cards.player import player_card
from pvg_hf.hub.cards.solutions import solutions_card
from pvg_hf.hub.layout import CARD, RECIPE
from pvg_hf.hub.names import PLAYERS
from pvg_hf.hub.publication import Files, Publication


def derived_files(publication: Publication, kind: str, workspace: Path) -> Files:
    """
    The card, the recipe and, with the solutions, the pairs of each round.

    Args:
        publication ([`Publication`]):
            The round.
        kind (`str`):
            `prover`, `verifier` or `solutions`.
        workspace (`Path`):
            An empty folder for files that are made; they must stay until they are published.
    """
    files: Files = {RECIPE: publication.root / RECIPE}
    if kind in PLAYERS:
        return {**files, CARD: player_card(publication, kind).encode()}
    pairs = dict(_write_pairs(publication, workspace))
    return {**files, **pairs, CARD: solutions_card(publication, next(iter(pairs.values()))).encode()}


def _write_pairs(publication: Publication, workspace: Path) -> Iterator[tuple[str, Path]]:
    """They stand nowhere in the run's folder, as they follow from its pool."""
    for k in range(publication.round_index + 1):
        files = training_files(publication.root / "pool", k)
        for part, split in zip(VERIFIER_PARTS, ("train", "heldout"), strict=True):
            pairs, _ = round_pairs(publication.recipe.for_round(k), files, k, part)
            path = f"pairs/{round_name(k)}/{split}.parquet"
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            with_labels(pairs).to_parquet(workspace / path)
            yield path, workspace / path
