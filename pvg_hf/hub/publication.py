"""A finished round of a run, ready to be published: its files by repository."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.integrity import find_damaged, read_json
from pvg_hf.core.roles import Role
from pvg_hf.hub.layout import (
    BASE_FOLDER,
    BASES,
    PUBLISHED_PLAYERS,
    SOLUTIONS,
    RunRepos,
    base_files,
    player_files,
    record_files,
)
from pvg_hf.hub.local_paths import ADAPTER_CONFIG, published_base, published_judgement
from pvg_hf.hub.repository import Source
from pvg_hf.models.sources import PACKAGED, resolve_model
from pvg_hf.run.judgements import judgement_folders
from pvg_hf.run.layout import JUDGEMENT, ROUND_FOLDERS, RunFolder
from pvg_hf.run.read import RoundData, load_figures
from pvg_hf.run.resume import has_weights, read_played_recipe

Files = dict[str, Source]


@dataclass(frozen=True)
class Publication:
    """A round of a run's folder, ready to be published; cards state the `license`."""

    folder: RunFolder
    round_index: int
    recipe: Recipe
    repos: RunRepos
    license: str | None = None

    @property
    def tag(self) -> str:
        return round_name(self.round_index)

    @property
    def kinds(self) -> list[str]:
        """Repositories in upload order: base weights first, and the solutions last, as their tag marks completion."""
        return [
            *(BASES[player] for player in PUBLISHED_PLAYERS if self.has_base_repo(player)),
            *PUBLISHED_PLAYERS,
            SOLUTIONS,
        ]

    def results(self, kind: str) -> Files:
        """Files with results of the game, by path in the repository of this kind."""
        if kind == SOLUTIONS:
            records = record_files(self.folder.root, self.round_index)
            judgements = {path: file for path, file in records.items() if Path(path).name == JUDGEMENT}
            return {**records, **{path: published_judgement(file) for path, file in judgements.items()}}
        if kind not in PUBLISHED_PLAYERS:
            return self.base_of(next(player for player in PUBLISHED_PLAYERS if BASES[player] == kind))
        found = player_files(self.folder.rounds(kind)[self.round_index], kind)
        files = {path: self._published_source(kind, file) for path, file in found.items()}
        base = {} if self.has_base_repo(kind) else self.base_of(kind)
        return {**files, **{f"{BASE_FOLDER}/{path}": file for path, file in base.items()}}

    def copies(self, kind: str) -> Files:
        """
        Copies of the helpful role's files at the prover's root, so that `from_pretrained(repo)` needs no subfolder.
        """
        if kind != "prover" or not self.is_separate:
            return {}
        folder = f"{Role.HELPFUL}/"
        return {
            name: source
            for path, source in self.results(kind).items()
            if path.startswith(folder) and "/" not in (name := path.removeprefix(folder))
        }

    @property
    def is_separate(self) -> bool:
        return self.recipe.for_round(self.round_index).prover.is_separate

    def _published_source(self, player: str, file: Path) -> Source:
        if file.name != ADAPTER_CONFIG:
            return file
        base = self.repos.base(player) if self.has_base_repo(player) else None
        return published_base(file, base, self.tag)

    def figures(self) -> list[RoundData]:
        """The figures of each round up to this one."""
        return load_figures(self.folder, range(self.round_index + 1))

    def player(self, kind: str) -> PlayerConfig:
        """Section of a player in this round's recipe."""
        return self.recipe.for_round(self.round_index).player(kind)

    def base_of(self, player: str) -> Files:
        """Initial weights of the player that are not on the Hub: the run's own, or packaged ones under adapters."""
        config = self.player(player)
        if config.is_made:
            return dict(base_files(self.folder.models / player))
        if config.lora is None or config.model not in PACKAGED:
            return {}
        found = base_files(Path(resolve_model(config.model, player)))
        files: Files = dict(found)
        if player == "verifier" and self.recipe.verifier.traits.has_score_head:
            files["config.json"] = _single_label_config(found["config.json"])
        return files

    def has_base_repo(self, player: str) -> bool:
        """Whether the base weights of the player's adapters need a repository, as they are nowhere else on the Hub."""
        return self.player(player).lora is not None and bool(self.base_of(player))


def _single_label_config(config: Path) -> bytes:
    """
    Add a single label to a language model's configuration, so that a classifier loads from it with no `num_labels`.
    """
    labels = {"id2label": {"0": "score"}, "label2id": {"score": 0}}
    return json.dumps(read_json(config, dict[str, Any]) | labels, indent=2, sort_keys=True).encode()


def open_publication(root: Path, round_index: int, repos: RunRepos, *, license: str | None = None) -> Publication:
    """
    Check that a round of the run in `root` can be published, and return it.

    Raises:
        DamagedFileError: if a file of a finished phase is damaged.
        ValueError: if the round is not finished, or its weights were deleted.
    """
    folder = RunFolder.find(root)
    missing = _unfinished_folders(folder, round_index)
    if missing:
        raise ValueError(
            f"Round {round_index} of {root} cannot be published: {', '.join(missing)} is not finished, or its weights"
            f" were deleted. Rounds that can be published: {publishable_rounds(root) or 'none'}."
        )
    for place in (*folder.phase_folders(), *judgement_folders(folder)):
        for damage in find_damaged(place):
            raise damage
    return Publication(folder, round_index, read_played_recipe(folder), repos, license)


def publishable_rounds(root: Path) -> list[int]:
    """Rounds that are evaluated and still have their players' weights."""
    folder = RunFolder(root)
    return [k for k in folder.rounds("evaluation") if not _unfinished_folders(folder, k)]


def _unfinished_folders(folder: RunFolder, round_index: int) -> list[str]:
    """Folders of a round that are not finished, or whose weights were deleted."""
    places = {kind: folder.round_folder(kind, round_index) for kind in ROUND_FOLDERS}
    return [
        str(place)
        for kind, place in places.items()
        if not place.is_dir() or (kind in PUBLISHED_PLAYERS and not has_weights(place))
    ]
