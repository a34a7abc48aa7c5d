"""Paths and state of a run of the message game."""

from dataclasses import dataclass
from pathlib import Path

from pvg_hf.core.figure import Figure
from pvg_hf.core.integrity import read_json
from pvg_hf.experimental.messages.recipe import MessageRecipe, MessageSource
from pvg_hf.run.lock import find_holder

GAME = "prover"
"""Name of the game itself, beside its controls: both are named by what the verifier sees as the message."""


@dataclass(frozen=True)
class MessageRunFolder:
    """Paths of a run of the message game."""

    root: Path

    @classmethod
    def of(cls, recipe: MessageRecipe) -> "MessageRunFolder":
        return cls(Path(recipe.output_dir) / recipe.name)

    @property
    def recipe(self) -> Path:
        return self.root / "message-recipe.yaml"

    @property
    def environment(self) -> Path:
        return self.root / "environment.json"

    @property
    def judgement(self) -> Path:
        """Figures of all games; the run is finished if it exists."""
        return self.root / "judgement.json"

    @property
    def is_begun(self) -> bool:
        """Whether a game was begun or finished."""
        return self.recipe.exists() and any((self.root / name).exists() for name in ("games", "training"))

    def game(self, source: str) -> Path:
        """Folder of a finished game, with `prover/`, `verifier/` and `log.jsonl`."""
        return self.root / "games" / source

    def training(self, source: str) -> Path:
        """Folder with the checkpoints of a game that is being trained."""
        return self.root / "training" / source

    def last_checkpoint(self, source: str) -> Path | None:
        """The newest checkpoint of a game that is being trained, if any."""
        found = self.training(source).glob("checkpoint-*")
        return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)

    def sources(self, recipe: MessageRecipe) -> list[MessageSource]:
        """List the game and its controls."""
        return [GAME, *recipe.controls]


def describe_run(recipe: MessageRecipe) -> str:
    """Describe the state of a run in a few lines."""
    folder = MessageRunFolder.of(recipe)
    lines = [f"Run      {folder.root}"]
    if holder := find_holder(folder.root):
        lines.append(f"Played   by process {holder}")
    for source in folder.sources(recipe):
        checkpoint = folder.last_checkpoint(source)
        begun = "not begun" if checkpoint is None else checkpoint.name
        lines.append(f"Game     {source}: {'finished' if folder.game(source).exists() else begun}")
    if folder.judgement.exists():
        figures = read_json(folder.judgement, dict[str, dict[str, Figure]])
        lines += [
            f"Accuracy {source}: {found['accuracy']:.3f}" for source, found in figures.items() if "accuracy" in found
        ]
    return "\n".join(lines)
