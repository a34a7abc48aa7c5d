"""A verifier whose architecture can compute products of problem and message, and parities of such products."""

import math

import torch
from torch import nn

from pvg_hf.experimental.messages.player_base import MessageVerifierConfig, MessageVerifierModel
from pvg_hf.experimental.messages.recipe import MessageVerifier
from pvg_hf.trainers.common.options import check_options

_RANDOM_SCALE = 0.5  # standard deviation of an angle at a random start, in units of pi
_PARITY_SCALE = 4.0  # log-odds at the parity start if all equations hold; its negative if one is violated


class CheckingVerifierConfig(MessageVerifierConfig):
    """
    Configuration of a [`CheckingVerifier`], in addition to
    [`~pvg_hf.experimental.messages.player_base.MessageVerifierConfig`].

    Args:
        num_inputs: Entries of a problem.
        num_checks: Number of checks. With the start `parity`, the number of equations, m, such that the problem has m
            (w + 1) entries for messages of width w.
        start: `random`, or `parity`: the function that checks the equations of a linear system over F_2.
    Raises `ValueError` for an unknown start or a number of checks out of range; or, with the start `parity`, if
        messages are not continuous or the problem is not a linear system.
    """

    model_type = "message_checking_verifier"

    num_inputs: int = 165
    num_checks: int = 32
    start: str = "random"

    def __post_init__(self, **kwargs):
        check_options(self, MessageVerifier, "num_checks", "start")
        super().__post_init__(**kwargs)
        if self.start != "parity":
            return
        if self.message_form != "continuous":
            raise ValueError(
                "The start `parity` needs `continuous` messages, with an entry per variable; the form is"
                f" `{self.message_form}`."
            )
        if self.num_inputs != self.num_checks * (self.message_width + 1):
            raise ValueError(
                "The start `parity` checks m equations, of a problem with m (w + 1) inputs and messages of width w:"
                f" {self.num_inputs} inputs are not {self.num_checks} x ({self.message_width} + 1)."
            )


class CheckingVerifier(MessageVerifierModel):
    """
    Verifier that checks a message against a problem.

    With x the problem and z the message, each extended by a 1, check k is cos(pi x' M_k z), and the logits are linear
    in the checks. A product of signs is a sum of products of bits up to constants, and cos(pi t) is the parity of an
    integer t, so that a check can be an equation over F_2.
    """

    config_class = CheckingVerifierConfig
    main_input_name = "inputs"

    def __init__(self, config: CheckingVerifierConfig):
        super().__init__(config)
        # (num_checks, num_inputs + 1, message_size + 1), as a matrix so that it is initialised like one.
        self.products = nn.Linear((config.num_inputs + 1) * (config.message_size + 1), config.num_checks, bias=False)
        self.readout = nn.Linear(config.num_checks, config.num_logits)
        self.post_init()

    def forward(self, message: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        problem = _with_one(inputs.flatten(1))
        forms = self.products.weight.unflatten(1, (problem.shape[1], -1))
        # First the problem, which is the longer factor: (batch, checks, message_size + 1).
        angles = torch.einsum("bi,kij->bkj", problem, forms)
        angles = torch.einsum("bkj,bj->bk", angles, _with_one(message.to(inputs.dtype)))
        return self.readout(torch.cos(math.pi * angles))

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if module is self.products:
            if self.config.start == "parity":
                module.weight.copy_(_parity_forms(self.config).flatten(1))
            else:
                # At random signs, an angle is a sum of as many terms as the weights have columns.
                nn.init.normal_(module.weight, std=_RANDOM_SCALE * module.in_features**-0.5)
        elif module is self.readout and self.config.start == "parity":
            _start_readout(module, self.config)
        else:
            super()._init_weights(module)


def _with_one(values: torch.Tensor) -> torch.Tensor:
    return torch.cat([values, torch.ones_like(values[:, :1])], dim=1)


def _parity_forms(config: CheckingVerifierConfig) -> torch.Tensor:
    """
    Forms whose value is the number of ones in an equation, (sum_j a_j s_j) + b.

    With signs x = 2 a - 1 and z = 2 s - 1, a product of bits is a s = (x z + x + z + 1) / 4, and b = (x + 1) / 2. A
    right-hand side that agrees with the left gives an even number, and cos(pi t) = 1.
    """
    num_equations, width = config.num_checks, config.message_width
    forms = torch.zeros(num_equations, config.num_inputs + 1, width + 1)
    for row in range(num_equations):
        for column in range(width):
            entry = row * width + column
            forms[row, entry, column] = forms[row, entry, -1] = 0.25
            forms[row, -1, column] = 0.25
            forms[row, -1, -1] += 0.25
        forms[row, num_equations * width + row, -1] = 0.5
        forms[row, -1, -1] += 0.5
    return forms


def _start_readout(readout: nn.Linear, config: CheckingVerifierConfig) -> None:
    """The checks add up to m if all equations hold and to m - 2 with one violation; the threshold is between."""
    readout.weight.zero_()
    readout.bias.zero_()
    half = _PARITY_SCALE / config.num_logits  # two logits differ by the sum of both
    for row, sign in ((-1, 1.0), (0, -1.0))[: config.num_logits]:
        readout.weight[row] = sign * half
        readout.bias[row] = -sign * half * (config.num_checks - 1)
