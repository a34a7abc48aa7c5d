"""
The two players as one module, with the loss of each while the other is frozen: the prover's in stable forms, and for
the verifier [`~pvg_hf.losses.pointwise_cross_entropy`] of its scores.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from pvg_hf.experimental.messages.player_base import MessagePlayerConfig, MessageProverModel, MessageVerifierModel
from pvg_hf.experimental.messages.recipe import MessageSource, ScoreCorrection
from pvg_hf.losses import label_losses

Columns = Mapping[str, torch.Tensor]
Params = Mapping[str, torch.Tensor]
Turn = Literal["prover", "verifier", "both"]

PLAYERS = ("prover", "verifier")
MESSAGE_VARIANTS = ("shuffled", "zeroed", "same_class")  # whether the verifier uses the message
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

    Columns of the problems are passed to both players by name. A column whose name begins with `prover_` is passed to
    the prover alone, in place of the column without this prefix.

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
        Compute the loss of the player whose turn it is, while the other is frozen: without gradient, and in evaluation
        mode.

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
                Parameters to use instead of the players' own. With the prover's, the gradient flows through the
                messages.
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
    """
    Within the block, a player is in evaluation mode, and its parameters get no gradient; one through them flows on.
    """
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


def acceptance_scores(logits: torch.Tensor) -> torch.Tensor:
    """
    Return the log-odds of yes, in float32: sigmoid of it is the probability that the verifier accepts.

    With two logits it is their difference, so that losses of the score equal those of log-softmax.

    Args:
        logits: shape `(num_problems, 1)`. Logit of yes, or logits of no and yes.
    Returns: `torch.Tensor` of shape `(num_problems,)`.
    Raises `ValueError` for another shape.
    """
    if logits.ndim != 2 or logits.shape[1] not in (1, 2):
        raise ValueError(f"The verifier's logits have shape {tuple(logits.shape)}; it must be (n, 1) or (n, 2).")
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]


def acceptance_loss(scores: torch.Tensor) -> torch.Tensor:
    """
    Return the prover's loss: the mean of softplus(-s) = -log P(accept), whatever the answer.

    Args:
        scores: shape `(num_problems,)`. Scores s of the verifier.
    Returns: scalar, at least 0.
    """
    return F.softplus(-scores).mean()


def message_entropy(messages: torch.Tensor, config: MessagePlayerConfig) -> torch.Tensor:
    """
    Return the entropy of an entry of the messages over the batch, in nats, averaged over the entries.

    It is 0 if all problems get the same extreme message, and log 2 (or log `num_symbols`) if all symbols are equally
    frequent. A continuous entry z counts as the symbol 1 with probability (1 + z) / 2.

    Returns: scalar.
    """
    if config.message_form == "discrete":
        shares = messages.unflatten(-1, (config.message_width, config.num_symbols)).mean(dim=0)
    else:
        yes = (1 + messages.mean(dim=0)) / 2
        shares = torch.stack([1 - yes, yes], dim=-1)  # (message_width, 2)
    return -torch.xlogy(shares, shares.clamp_min(1e-12)).sum(dim=-1).mean()


def vary_message(message: torch.Tensor, labels: torch.Tensor, kind: str) -> torch.Tensor:
    """
    Replace the messages of a batch.

    Args:
        kind: `shuffled`: the message of the next problem. `zeroed`: zeros. `same_class`: the message of the next
            problem with the same answer.
    Returns: `torch.Tensor` of the same shape.
    """
    if kind == "zeroed":
        return torch.zeros_like(message)
    if kind == "shuffled":
        return message.roll(1, dims=0)
    varied = message.clone()
    for answer in (0, 1):
        rows = torch.nonzero(labels == answer)[:, 0]
        varied[rows] = message[rows.roll(1)]
    return varied
