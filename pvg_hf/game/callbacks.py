"""Hooks of the round loop."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pvg_hf.game.context import PhaseContext


class GameCallback:
    """Subclass it and pass an instance to [`play`]; every method may be left out."""

    def on_phase_begin(self, context: "PhaseContext") -> None:
        """Before a phase is played, on every process."""

    def on_phase_end(self, context: "PhaseContext") -> None:
        """After its results appeared in the run's folder."""
