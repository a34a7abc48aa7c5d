"""
Losses of the message game: the prover's, in stable forms, and the entropy of messages. The verifier's is
[`~pvg_hf.losses.pointwise_cross_entropy`] of its scores.
"""

import torch
import torch.nn.functional as F

from pvg_hf.experimental.messages.player_base import MessagePlayerConfig


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

    It is 0 if all problems get the same extreme message, and log 2 (or log `num_symbols`) if all symbols are equally frequent. A
    continuous entry z counts as the symbol 1 with probability (1 + z) / 2.

    Returns: scalar.
    """
    if config.message_form == "discrete":
        shares = messages.unflatten(-1, (config.message_width, config.num_symbols)).mean(dim=0)
    else:
        yes = (1 + messages.mean(dim=0)) / 2
        shares = torch.stack([1 - yes, yes], dim=-1)  # (message_width, 2)
    return -torch.xlogy(shares, shares.clamp_min(1e-12)).sum(dim=-1).mean()
