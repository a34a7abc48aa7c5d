"""What is published of a round: the files of each repository, and what they are derived from."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe, load_recipe
from pvg_hf.config.sections import PlayerConfig
from pvg_hf.data.pairs import with_labels
from pvg_hf.data.rounds import round_pairs, training_files
from pvg_hf.data.schema import round_name
from pvg_hf.data.split import VERIFIER_PARTS
from pvg_hf.hub.cards.player import player_card
from pvg_hf.hub.cards.solutions import solutions_card
from pvg_hf.hub.layout import CARD, RECIPE, base_files, player_files, record_files
from pvg_hf.hub.names import PLAYERS, RunRepos
from pvg_hf.hub.repository import Source
from pvg_hf.models.sources import PACKAGED, resolve_model

Files = dict[str, Source]
PHASES = ("verifier", "prover", "pool", "evaluation")  # folders of a run that hold one of each round


@dataclass(frozen=True)
class Publication:
    """
    A round of a run's folder.

    Args:
        root (`Path`):
            The run's folder.
        round_index (`int`):
            Which round.
        recipe ([`~pvg_hf.config.Recipe`]):
            That the run was played with.
        repos ([`RunRepos`]):
            Where it goes.
        license (`str`, *optional*):
            Of the cards.
    """

    root: Path
    round_index: int
    recipe: Recipe
    repos: RunRepos
    license: str | None = None

    @property
    def tag(self) -> str:
        return round_name(self.round_index)

    def results(self, kind: str) -> Files:
        """What was played, by path in the repository `prover`, `verifier` or `solutions`."""
        if kind not in PLAYERS:
            return dict(record_files(self.root, self.round_index))
        return {**player_files(self.root / kind / self.tag, kind), **self._base_of(kind)}

    def derived(self, kind: str, workspace: Path) -> Files:
        """
        What is written for the Hub: the card, the recipe and, with the solutions, the pairs of each round.

        Args:
            kind (`str`):
                `prover`, `verifier` or `solutions`.
            workspace (`Path`):
                An empty folder for files that are made; they must stay until they are published.
        """
        files: Files = {RECIPE: self.root / RECIPE}
        if kind in PLAYERS:
            has_base = bool(self._base_of(kind))
            return {**files, CARD: player_card(self, kind, has_base=has_base).encode()}
        pairs = dict(self._write_pairs(workspace))
        return {**files, **pairs, CARD: solutions_card(self, next(iter(pairs.values()))).encode()}

    def figures(self) -> list[dict[str, dict[str, Any]]]:
        """The figures of each round up to this one, each with `value`, `low`, `high` and `n`."""
        files = [self.root / "evaluation" / round_name(k) / "metrics.json" for k in range(self.round_index + 1)]
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def player(self, kind: str) -> PlayerConfig:
        """The recipe's section of a player in this round."""
        recipe = self.recipe.for_round(self.round_index)
        return {"prover": recipe.prover, "verifier": recipe.verifier}[kind]

    def _base_of(self, player: str) -> Files:
        """Weights that the player starts from and that the Hub has not: the run's own, or the package's under adapters."""
        config = self.player(player)
        if config.scratch or config.warmup:
            return dict(base_files(self.root / "models" / player))
        is_packaged = config.lora is not None and config.model in PACKAGED
        return dict(base_files(Path(resolve_model(config.model, player)))) if is_packaged else {}

    def _write_pairs(self, workspace: Path) -> Iterator[tuple[str, Path]]:
        """They stand nowhere in the run's folder, as they follow from its pool."""
        for k in range(self.round_index + 1):
            files = training_files(self.root / "pool", k)
            for part, split in zip(VERIFIER_PARTS, ("train", "heldout"), strict=True):
                pairs, _ = round_pairs(self.recipe.for_round(k), files, k, part)
                path = f"pairs/{round_name(k)}/{split}.parquet"
                (workspace / path).parent.mkdir(parents=True, exist_ok=True)
                with_labels(pairs).to_parquet(workspace / path)
                yield path, workspace / path


def open_publication(root: Path, round_index: int, repos: RunRepos, *, license: str | None = None) -> Publication:
    """
    A round of the run in `root`.

    Raises:
        ValueError: if the round is not finished, or its weights are gone.
    """
    recipe = read_recipe(root)
    missing = [str(root / phase / round_name(round_index)) for phase in PHASES if not _has(root, phase, round_index)]
    if missing:
        raise ValueError(
            f"Round {round_index} of {root} cannot be published: {', '.join(missing)} is not finished, or its weights were "
            f"deleted. Rounds that can be: {publishable_rounds(root) or 'none'}."
        )
    return Publication(root, round_index, recipe, repos, license)


def read_recipe(root: Path) -> Recipe:
    """
    Raises:
        ValueError: if `root` is no run's folder, or its recipe is damaged.
    """
    if not (root / RECIPE).is_file():
        raise ValueError(f"{root} is no run folder: it has no {RECIPE}.")
    return load_recipe(root / RECIPE)


def publishable_rounds(root: Path) -> list[int]:
    """The rounds that are evaluated and whose players are still there."""
    evaluated = sorted(int(path.name.removeprefix("round-")) for path in (root / "evaluation").glob("round-*"))
    return [k for k in evaluated if all(_has(root, phase, k) for phase in PHASES)]


def _has(root: Path, phase: str, round_index: int) -> bool:
    folder = root / phase / round_name(round_index)
    return folder.is_dir() and (phase not in PLAYERS or next(folder.rglob("*.safetensors"), None) is not None)
