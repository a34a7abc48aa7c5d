"""The two players as one module, with the loss of each while the other is frozen."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from torch.func import functional_call

from pvg_hf.experimental.messages.losses import acceptance_loss, acceptance_scores, message_entropy
from pvg_hf.experimental.messages.player_base import MessageProverModel, MessageVerifierModel
from pvg_hf.experimental.messages.recipe import MessageSource, ScoreCorrection
from pvg_hf.losses import label_losses

Columns = Mapping[str, torch.Tensor]
Params = Mapping[str, torch.Tensor]
Turn = Literal["prover", "verifier", "both"]

PLAYERS = ("prover", "verifier")
PROVER_PREFIX = "prover_"  # of columns that only the prover sees


@dataclass(frozen=True)
class GameRules:
    """
    Settings of the losses.

    Args:
        message_source: What the verifier sees as the message: the prover's, none (zeros), or the column `witness`.
        entropy_bonus: Weight of the entropy of the messages in the prover's loss.
        correction: Correction of the verifier's loss, see [`~pvg_hf.losses.pointwise_cross_entropy`].
        center: Weight of the mean squared score in the verifier's loss.
    """

    message_source: MessageSource = "prover"
    entropy_bonus: float = 0.0
    correction: ScoreCorrection = "none"
    center: float = 0.0


class MessageGame(nn.Module):
    """
    Prover and verifier as one module, which a trainer can wrap.

    Columns of the problems are passed to both players by name. A column whose name begins with `prover_` is passed to the prover
    alone, in place of the column without this prefix.

    Raises `ValueError` if the players disagree about the size of messages.
    """

    def __init__(self, prover: MessageProverModel, verifier: MessageVerifierModel, rules: GameRules | None = None):
        super().__init__()
        self.prover, self.verifier, self.rules = prover, verifier, rules or GameRules()
        if prover.config.message_size != verifier.config.message_size:
            raise ValueError(
                f"The prover's messages have {prover.config.message_size} entries, and the verifier takes "
                f"{verifier.config.message_size}; both need the same `message_width` and form."
            )

    def forward(
        self,
        turn: Turn,
        problems: Columns,
        labels: torch.Tensor | None = None,
        rates: tuple[float, float] = (0.0, 0.0),
    ) -> dict[str, torch.Tensor]:
        """
        Compute the loss of the player whose turn it is, while the other is frozen: without gradient, and in evaluation mode.

        Args:
            turn: `prover`, `verifier`, or `both`: both losses at the same point, each with the other player frozen.
            problems: Columns of the problems, and `witness` if that is the message.
            labels: shape `(num_problems,)`. Labels for the verifier's loss, perhaps noisy.
        """
        losses = {}
        if turn != "verifier":
            with frozen(self.verifier):
                losses["prover"] = self.prover_loss(problems)
        if turn != "prover":
            with frozen(self.prover):
                losses["verifier"] = self.verifier_loss(problems, labels, rates)
        return losses

    def message(self, problems: Columns, prover_params: Params | None = None) -> torch.Tensor:
        """Return the messages that the verifier sees, of shape `(num_problems, message_size)`."""
        if self.rules.message_source == "witness":
            return problems["witness"]
        if self.rules.message_source == "none":
            some = next(iter(problems.values()))
            size = self.verifier.config.message_size
            return torch.zeros(len(some), size, device=some.device, dtype=self.verifier.dtype)
        return _call(self.prover, prover_params, prover_columns(problems))

    def scores(self, problems: Columns, message: torch.Tensor, verifier_params: Params | None = None) -> torch.Tensor:
        """Return the verifier's scores of problems with given messages, of shape `(num_problems,)`."""
        return acceptance_scores(
            _call(self.verifier, verifier_params, {"message": message, **verifier_columns(problems)})
        )

    def prover_loss(
        self, problems: Columns, *, prover_params: Params | None = None, verifier_params: Params | None = None
    ) -> torch.Tensor:
        """
        Return -log P(accept), less the entropy bonus. Its gradient reaches the prover through the verifier.

        Args:
            prover_params, verifier_params: Parameters to use instead of the players' own.
        """
        message = self.message(problems, prover_params)
        loss = acceptance_loss(self.scores(problems, message, verifier_params))
        if self.rules.entropy_bonus:
            loss = loss - self.rules.entropy_bonus * message_entropy(message, self.prover.config)
        return loss

    def verifier_loss(
        self,
        problems: Columns,
        labels: torch.Tensor,
        rates: tuple[float, float] = (0.0, 0.0),
        *,
        prover_params: Params | None = None,
        verifier_params: Params | None = None,
    ) -> torch.Tensor:
        """
        Return the cross-entropy of the labels on the prover's messages, with the rules' correction.

        Args:
            problems, labels, rates:
                As for [`forward`].
            prover_params, verifier_params (`Mapping[str, torch.Tensor]`, *optional*):
                Parameters to use instead of the players' own. With the prover's, the gradient flows through the messages.
        """
        scores = self.scores(problems, self.message(problems, prover_params), verifier_params)
        losses = label_losses(scores, labels.to(scores), *rates, self.rules.correction)
        return losses.mean() + self.rules.center * scores.square().mean()

    def save_players(self, folder: Path) -> None:
        """Write `prover/` and `verifier/`, which `from_pretrained` of their classes loads."""
        for name in PLAYERS:
            self.get_submodule(name).save_pretrained(folder / name)


def prover_columns(problems: Columns) -> dict[str, torch.Tensor]:
    """Return the columns that the prover sees."""
    own = {
        name.removeprefix(PROVER_PREFIX): value for name, value in problems.items() if name.startswith(PROVER_PREFIX)
    }
    return {**verifier_columns(problems), **own}


def verifier_columns(problems: Columns) -> dict[str, torch.Tensor]:
    """Return the columns that the verifier sees."""
    return {
        name: value for name, value in problems.items() if not name.startswith(PROVER_PREFIX) and name != "witness"
    }


def _call(player: nn.Module, params: Params | None, columns: Columns) -> torch.Tensor:
    return player(**columns) if params is None else functional_call(player, dict(params), kwargs=dict(columns))


@contextmanager
def frozen(player: nn.Module) -> Iterator[None]:
    """Within the block, a player is in evaluation mode, and its parameters get no gradient; one through them flows on."""
    trained = [parameter for parameter in player.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        with evaluating(player):
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


@contextmanager
def evaluating(player: nn.Module) -> Iterator[None]:
    """Within the block, a player is in evaluation mode; its gradients are not affected."""
    was_training = player.training
    player.eval()
    try:
        yield
    finally:
        player.train(was_training)
