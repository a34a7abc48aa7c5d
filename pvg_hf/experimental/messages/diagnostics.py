"""Does the verifier use the message? Figures of an evaluation with messages that are shuffled, zeroed, or of another problem."""

from collections.abc import Mapping

import numpy as np
import torch

MESSAGE_VARIANTS = ("shuffled", "zeroed", "same_class")


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


def diagnose(
    scores: np.ndarray, labels: np.ndarray, message: np.ndarray, varied: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """
    Compute the figures of an evaluation on clean labels, at score 0.

    Args:
        varied: Scores with other messages, by name.
    Returns: `accuracy`; `completeness`, P(accepted | yes); `soundness`, P(rejected | no); `accuracy_NAME` for each of
        `varied`; and `message_diversity`, the standard deviation of an entry over the problems, averaged over the
        entries.
    """
    accepted, is_yes = scores > 0, labels == 1
    figures = {"accuracy": float((accepted == is_yes).mean())}
    if is_yes.any():
        figures["completeness"] = float(accepted[is_yes].mean())
    if not is_yes.all():
        figures["soundness"] = float(1 - accepted[~is_yes].mean())
    for name, other in varied.items():
        figures[f"accuracy_{name}"] = float(((other > 0) == is_yes).mean())
    figures["message_diversity"] = float(message.std(axis=0).mean())
    return figures
