"""Message players on an encoder of texts."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.configuration_utils import SubConfigSpec

from pvg_hf.experimental.messages.player_base import (
    MessagePlayerConfig,
    MessageProverModel,
    MessageVerifierConfig,
    MessageVerifierModel,
)
from pvg_hf.experimental.messages.recipe import MessagePlayer
from pvg_hf.models.sources import LOADING, SAFELY, check_weight_files, local_folder
from pvg_hf.trainers.common.options import check_options

DEFAULT_ENCODER = "distilbert-base-uncased"


class MessageTransformerConfig(MessagePlayerConfig):
    """
    Configuration of a player on an encoder, in addition to [`MessagePlayerConfig`].

    Args:
        encoder: Configuration of the encoder, with its `model_type`; DistilBERT's by default.
        freeze_encoder: Whether only the head is trained.
        dropout: P(an entry of the first token's state is dropped before the head) in training, in [0, 1).
    Raises `ValueError` for a `dropout` out of range.
    """

    sub_configs_defaults = {"encoder": SubConfigSpec(config_class=AutoConfig, model_type="distilbert")}  # noqa: RUF012

    encoder: dict | PreTrainedConfig | None = None
    freeze_encoder: bool = False
    dropout: float = 0.0

    def __post_init__(self, **kwargs):
        check_options(self, MessagePlayer, "dropout")
        super().__post_init__(**kwargs)


class MessageTransformerProverConfig(MessageTransformerConfig):
    """Configuration of a [`MessageTransformerProver`], with the arguments of [`MessageTransformerConfig`]."""

    model_type = "message_transformer_prover"


class MessageTransformerVerifierConfig(MessageTransformerConfig, MessageVerifierConfig):
    """
    Configuration of a [`MessageTransformerVerifier`], with the arguments of [`MessageTransformerConfig`] and
    [`~pvg_hf.experimental.messages.player_base.MessageVerifierConfig`].
    """

    model_type = "message_transformer_verifier"


class _OnEncoder(PreTrainedModel):
    """Encoder that both players build in the same way."""

    main_input_name = "input_ids"

    def _add_encoder(self, config: MessageTransformerConfig, num_outputs: int, num_extra: int = 0) -> None:
        self.encoder = AutoModel.from_config(config.encoder, trust_remote_code=False)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.encoder.hidden_size + num_extra, num_outputs)
        if config.freeze_encoder:
            self.encoder.requires_grad_(False)

    def _text_state(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the state of the first token, of shape `(num_problems, hidden_size)`."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.dropout(hidden[:, 0])

    def _init_weights(self, module: nn.Module) -> None:
        if module is self.head:  # the encoder's own modules are initialised by its class
            super()._init_weights(module)
        else:
            self.encoder._init_weights(module)

    @classmethod
    def from_encoder(cls, source: str | Path, **options: Any) -> "_OnEncoder":
        """
        Make a player with a pretrained encoder and a new head.

        Args:
            source (`str` or `Path`): Hub id or folder of an encoder.
            **options:
                Arguments of the player's configuration, except `encoder`.

        Raises:
            ValueError: if the source is neither a folder nor on the Hub, or its weights are not safetensors.
        """
        folder = local_folder(source)
        check_weight_files(folder)
        # In float32, as the head and the optimiser need it, whatever the weights are stored in.
        with LOADING:
            encoder = AutoModel.from_pretrained(folder, dtype=torch.float32, **SAFELY)
        player = cls(cls.config_class(encoder=encoder.config.to_dict(), **options))
        player.encoder.load_state_dict(encoder.state_dict())
        return player


class MessageTransformerProver(_OnEncoder, MessageProverModel):
    """Prover: the message is a linear function of the first token's state."""

    config_class = MessageTransformerProverConfig

    def __init__(self, config: MessageTransformerProverConfig):
        super().__init__(config)
        self._add_encoder(config, config.message_size)
        self.post_init()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.form_message(self.head(self._text_state(input_ids, attention_mask)))


class MessageTransformerVerifier(_OnEncoder, MessageVerifierModel):
    """Verifier: the logits are a linear function of the first token's state and the message."""

    config_class = MessageTransformerVerifierConfig

    def __init__(self, config: MessageTransformerVerifierConfig):
        super().__init__(config)
        self._add_encoder(config, config.num_logits, num_extra=config.message_size)
        self.post_init()

    def forward(self, message: torch.Tensor, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        state = self._text_state(input_ids, attention_mask)
        return self.head(torch.cat([state, message.to(state.dtype)], dim=1))
