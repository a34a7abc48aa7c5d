"""Counts rounds and steps, and decides whose turn it is."""

from dataclasses import asdict, dataclass, field
from typing import Any

from pvg_hf.experimental.messages.game_modules import Turn

_ROUNDING = 1e-6  # a mean loss that falls by less does not fall


@dataclass(frozen=True)
class TurnPlan:
    """
    Steps of a round.

    Args:
        prover_steps: Steps of the prover; 0 if the verifier plays alone. With `patience`, the maximum.
        is_simultaneous: Whether each step updates both players; a round then has as many steps as both together.
        patience: The prover stops when the mean loss of this many steps is not below that of as many steps before.
    """

    num_rounds: int
    prover_steps: int
    verifier_steps: int
    is_simultaneous: bool = False
    patience: int | None = None

    @property
    def max_steps(self) -> int:
        """Steps of the whole game; an upper bound with `patience`."""
        return self.num_rounds * (self.prover_steps + self.verifier_steps)

    def player_steps(self, player: str) -> int:
        """Steps of a player in the whole game; an upper bound with `patience`."""
        if self.is_simultaneous:
            return self.max_steps
        return self.num_rounds * (self.prover_steps if player == "prover" else self.verifier_steps)


@dataclass
class GameClock:
    """Position in a game."""

    plan: TurnPlan
    round_index: int = 0
    prover_taken: int = 0  # steps in this round
    verifier_taken: int = 0
    totals: dict[str, int] = field(default_factory=lambda: {"prover": 0, "verifier": 0})  # steps in the whole game
    losses: list[float] = field(default_factory=list)  # the prover's in this round
    has_responded: bool = False  # whether the prover's turn of this round is over

    @property
    def turn(self) -> Turn:
        """Whose turn it is."""
        if self.plan.is_simultaneous:
            return "both"
        return "prover" if self.plan.prover_steps and not self.has_responded else "verifier"

    @property
    def is_over(self) -> bool:
        """Whether all rounds were played."""
        return self.round_index >= self.plan.num_rounds

    def advance(self, prover_loss: float | None = None) -> dict[str, float]:
        """
        Count a step.

        Returns: at the end of the prover's turn its figures, see [`response_figures`]; otherwise empty.
        """
        if self.plan.is_simultaneous:
            self._count("prover")
            self._count("verifier")
            if self.totals["prover"] % (self.plan.prover_steps + self.plan.verifier_steps) == 0:
                self._end_round()
            return {}
        if self.turn == "verifier":
            self._count("verifier")
            if self.verifier_taken == self.plan.verifier_steps:
                self._end_round()
            return {}
        self._count("prover")
        self.losses.append(prover_loss)
        self.has_responded = self.prover_taken == self.plan.prover_steps or self._has_settled()
        return self.response_figures() if self.has_responded else {}

    def response_figures(self) -> dict[str, float]:
        """
        Describe the quality of the prover's response in this round.

        Returns: `response_steps`; `response_gain`, by how much its loss fell from its first to its last step; and
            `response_slope`, by how much it still fell per step at the end of the turn: from the third to the last
            quarter of the steps. It is 0 for a best response, up to the noise of batches.
        """
        quarter = max(1, len(self.losses) // 4)
        earlier, last = self.losses[-2 * quarter : -quarter] or self.losses[:quarter], self.losses[-quarter:]
        slope = (sum(earlier) / len(earlier) - sum(last) / len(last)) / quarter
        return {
            "response_steps": float(len(self.losses)),
            "response_gain": self.losses[0] - self.losses[-1],
            "response_slope": slope,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the position as plain values."""
        return {name: value for name, value in asdict(self).items() if name != "plan"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position from [`state_dict`]."""
        vars(self).update(state)

    def _has_settled(self) -> bool:
        patience = self.plan.patience
        if patience is None or len(self.losses) < 2 * patience:
            return False
        before, recent = self.losses[-2 * patience : -patience], self.losses[-patience:]
        return sum(recent) >= sum(before) - _ROUNDING * patience

    def _count(self, player: str) -> None:
        self.totals[player] += 1
        if player == "prover":
            self.prover_taken += 1
        else:
            self.verifier_taken += 1

    def _end_round(self) -> None:
        self.round_index += 1
        self.prover_taken = self.verifier_taken = 0
        self.losses, self.has_responded = [], False
