"""Paths of a run of the message game."""

from dataclasses import dataclass
from pathlib import Path

from pvg_hf.config.message_recipe import MessageRecipe, MessageSource

GAME = "prover"
"""Name of the game itself, beside its controls: both are named by what the verifier sees as the message."""


@dataclass(frozen=True)
class MessageRunFolder:
    """
    Paths of a run of the message game.

    Args:
        root (`Path`):
            `OUTPUT_DIR/NAME`.
    """

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

    def sources(self, recipe: MessageRecipe) -> list[MessageSource]:
        """List the game and its controls."""
        return [GAME, *recipe.controls]
