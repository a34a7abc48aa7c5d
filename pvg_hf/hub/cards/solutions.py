"""The dataset card of a run's solutions."""

from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCard, DatasetCardData

from pvg_hf.data.schema import BASE_ROUND, round_name
from pvg_hf.hub.cards.columns import PAIRS, SOLUTIONS, columns_table
from pvg_hf.hub.cards.facts import license_of
from pvg_hf.hub.publication import Publication
from pvg_hf.roles import GAME_ROLES, Role
from pvg_hf.trainers.model_card import CITATION, PAPER, TAGS


def solutions_card(publication: Publication, pairs: Path) -> str:
    """
    Args:
        publication ([`Publication`]):
            The round.
        pairs (`Path`):
            A file of pairs, whose columns are described.
    """
    repos, license = publication.repos, license_of(publication.recipe, publication.license)
    data = DatasetCardData(
        license=license,
        task_categories=["text-generation", "text-classification"],
        tags=TAGS,
        configs=list(_configs(publication)),
    )
    base = publication.root / "pool" / round_name(BASE_ROUND) / f"{Role.BASE}.parquet"
    card = DatasetCard.from_template(
        data,
        template_path=str(Path(__file__).with_name("solutions.md.jinja")),
        repos=repos,
        tag=publication.tag,
        recipe=publication.recipe,
        license=license,
        paper=PAPER,
        citation=CITATION,
        solution_columns=columns_table(base, SOLUTIONS),
        pair_columns=columns_table(pairs, PAIRS),
    )
    return str(card)


def _configs(publication: Publication) -> list[dict[str, Any]]:
    """A config for each source of solutions, the newest round being the default, and one for each round's pairs."""
    rounds = range(publication.round_index + 1)
    configs = [_config(round_name(k), _splits(publication.root, k)) for k in (BASE_ROUND, *rounds)]
    configs[-1]["default"] = True
    for name in map(round_name, rounds):
        files = {split: [f"pairs/{name}/{split}.parquet"] for split in ("train", "heldout")}
        configs.append(_config(f"pairs-{name}", files))
    return configs


def _splits(root: Path, round_index: int) -> dict[str, list[str]]:
    """Files by split: what a role wrote on D_V and on test problems, and what the best helpful checkpoint wrote."""
    folder = f"pool/{round_name(round_index)}"
    names = {role.value: [f"{role}", f"test-{role}"] for role in GAME_ROLES}
    names |= {"base": ["base"], "best_helpful": ["test-best-helpful"]}
    files = {split: [f"{folder}/{name}.parquet" for name in found] for split, found in names.items()}
    there = {split: [path for path in paths if (root / path).is_file()] for split, paths in files.items()}
    return {split: paths for split, paths in there.items() if paths}


def _config(name: str, splits: dict[str, list[str]]) -> dict[str, Any]:
    return {"config_name": name, "data_files": [{"split": split, "path": paths} for split, paths in splits.items()]}
