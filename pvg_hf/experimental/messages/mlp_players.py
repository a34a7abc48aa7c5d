"""Message players with fully connected networks, for problems that are vectors."""

import torch
from torch import nn

from pvg_hf.experimental.messages.player_base import (
    MessagePlayerConfig,
    MessageProverModel,
    MessageVerifierConfig,
    MessageVerifierModel,
)
from pvg_hf.experimental.messages.recipe import MessagePlayer
from pvg_hf.trainers.common.options import check_options


class MessageMLPConfig(MessagePlayerConfig):
    """
    Sizes of a fully connected network, in addition to those of [`MessagePlayerConfig`].

    Args:
        dropout: P(an entry of a hidden layer is dropped) in training, in [0, 1).
    Raises `ValueError` for a size out of range.
    """

    num_inputs: int = 165
    hidden_size: int = 128
    num_layers: int = 2
    dropout: float = 0.0

    def __post_init__(self, **kwargs):
        check_options(self, MessagePlayer, "hidden_size", "num_layers", "dropout")
        super().__post_init__(**kwargs)


class MessageMLPProverConfig(MessageMLPConfig):
    """Configuration of a [`MessageMLPProver`], with the arguments of [`MessageMLPConfig`]."""

    model_type = "message_mlp_prover"


class MessageMLPVerifierConfig(MessageMLPConfig, MessageVerifierConfig):
    """
    Configuration of a [`MessageMLPVerifier`], with the arguments of [`MessageMLPConfig`] and
    [`~pvg_hf.experimental.messages.player_base.MessageVerifierConfig`].
    """

    model_type = "message_mlp_verifier"


class MessageMLPProver(MessageProverModel):
    """Prover: a network from the flattened problem to a message."""

    config_class = MessageMLPProverConfig
    main_input_name = "inputs"

    def __init__(self, config: MessageMLPProverConfig):
        super().__init__(config)
        self.network = make_network(config, config.num_inputs, config.message_size)
        self.post_init()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.form_message(self.network(inputs.flatten(1)))


class MessageMLPVerifier(MessageVerifierModel):
    """Verifier: a network from the flattened problem and the message to one or two logits."""

    config_class = MessageMLPVerifierConfig
    main_input_name = "inputs"

    def __init__(self, config: MessageMLPVerifierConfig):
        super().__init__(config)
        self.network = make_network(config, config.num_inputs + config.message_size, config.num_logits)
        self.post_init()

    def forward(self, message: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return self.network(torch.cat([inputs.flatten(1), message], dim=1))


def make_network(config: MessageMLPConfig, num_inputs: int, num_outputs: int) -> nn.Sequential:
    """Make a network with ReLU activations and the hidden layers of `config`."""
    layers: list[nn.Module] = []
    width = num_inputs
    for _ in range(config.num_layers):
        layers += [nn.Linear(width, config.hidden_size), nn.ReLU()]
        if config.dropout:
            layers.append(nn.Dropout(config.dropout))
        width = config.hidden_size
    return nn.Sequential(*layers, nn.Linear(width, num_outputs))
