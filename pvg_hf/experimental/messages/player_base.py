"""Base classes of message provers and verifiers, and the form of messages."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from pvg_hf.experimental.messages.recipe import MessageConfig, MessageVerifier
from pvg_hf.trainers.common.options import check_options


class MessagePlayerConfig(PreTrainedConfig):
    """
    Configuration that every message player has.

    Args:
        message_width: Entries of a message.
        message_form: `continuous`: entries in (-1, 1). `discrete`: each entry is one of `num_symbols` symbols, as a
            one-hot vector.
        num_symbols: Symbols of a discrete entry.
        temperature: Temperature of the Gumbel softmax for discrete messages.
    Raises `ValueError` for an unknown form, or a size out of range.
    """

    message_width: int = 10
    message_form: str = "continuous"
    num_symbols: int = 2
    temperature: float = 1.0

    def __post_init__(self, **kwargs):
        check_options(self, MessageConfig, "num_symbols", "temperature", message_form="form", message_width="width")
        super().__post_init__(**kwargs)

    @property
    def message_size(self) -> int:
        """Numbers in a message: the width, times the symbols for discrete messages."""
        return self.message_width * (self.num_symbols if self.message_form == "discrete" else 1)


class MessageVerifierConfig(MessagePlayerConfig):
    """
    Configuration that every verifier has, in addition to [`MessagePlayerConfig`].

    Args:
        num_logits: 1, the logit of yes, or 2, those of no and yes.
    Raises `ValueError` for another number of logits.
    """

    num_logits: int = 1

    def __post_init__(self, **kwargs):
        check_options(self, MessageVerifier, "num_logits")
        super().__post_init__(**kwargs)


class MessagePlayerModel(PreTrainedModel):
    """Base class of provers and verifiers: weights of linear layers are drawn uniformly, as in `torch.nn.Linear`."""

    config_class = MessagePlayerConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            nn.init.uniform_(module.weight, -bound, bound)
            if module.bias is not None:
                nn.init.uniform_(module.bias, -bound, bound)


class MessageProverModel(MessagePlayerModel):
    """
    Base class of provers. `forward` takes the columns of the problems and returns messages of shape `(n,
    message_size)`.
    """

    def form_message(self, raw: torch.Tensor) -> torch.Tensor:
        """
        Turn outputs of the network into messages.

        Args:
            raw: shape `(num_problems, message_size)`. Unbounded outputs.
        Returns: `torch.Tensor` of the same shape: in (-1, 1); or one-hot vectors, which are sampled in training, with
            the gradient of the softmax (straight-through Gumbel), and the most likely symbols otherwise.
        """
        if self.config.message_form == "continuous":
            return torch.tanh(raw)
        logits = raw.unflatten(-1, (self.config.message_width, self.config.num_symbols))
        if self.training:
            return F.gumbel_softmax(logits, tau=self.config.temperature, hard=True).flatten(-2)
        return F.one_hot(logits.argmax(dim=-1), self.config.num_symbols).to(raw.dtype).flatten(-2)


class MessageVerifierModel(MessagePlayerModel):
    """
    Base class of verifiers. `forward` takes `message` and the columns of the problems, and returns logits of shape
    `(n, 1)` (of yes) or `(n, 2)` (of no and yes).
    """
