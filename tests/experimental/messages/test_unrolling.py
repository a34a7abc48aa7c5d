"""
The leader's true gradient: repeated steps, finite differences, and a game whose Stackelberg and Nash points differ.
"""

import pytest
import torch
from torch import nn

from pvg_hf.experimental.messages.game_modules import MessageGame
from pvg_hf.experimental.messages.stackelberg_config import StackelbergConfig
from pvg_hf.experimental.messages.stackelberg_trainer import StackelbergTrainer
from pvg_hf.experimental.messages.unrolling import StepRule, repeat_steps, take_snapshot
from tests.support.message_games import small_game

LAST_BIAS = "network.2.bias"


def optimizer_of(kind: str, player: nn.Module) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(player.parameters(), lr=0.1, weight_decay=0.05)
    return torch.optim.AdamW(player.parameters(), lr=0.01, weight_decay=0.05)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_repeated_steps_are_those_of_the_optimiser(kind, clip):
    game = small_game().double()
    optimizer = optimizer_of(kind, game.prover)
    generator = torch.Generator().manual_seed(0)
    batches = [{"inputs": torch.randn(8, 4, generator=generator, dtype=torch.double)} for _ in range(6)]
    snapshots = []
    for batch in batches:
        snapshots.append(take_snapshot(game.prover, optimizer, batch, clip))
        optimizer.zero_grad()
        game.prover_loss(batch).backward()
        if clip:
            nn.utils.clip_grad_norm_(game.prover.parameters(), clip)
        optimizer.step()

    def loss(params, batch):
        return game.prover_loss(batch, prover_params=params, verifier_params=dict(game.verifier.named_parameters()))

    for last in (6, 2):  # also from a state with moments
        repeated = repeat_steps(loss, snapshots[-last:])
        for name, parameter in game.prover.named_parameters():
            assert torch.allclose(repeated[name], parameter, atol=1e-9), name


# The prover's loss is (u - v)^2 / 2, so that its best response is u = v. The verifier's is (v - 1)^2 / 2 + u v. At
# fixed u its gradient is v - 1 + u, which is 0 with u = v at 1/2, the Nash point. With the response, (v - 1)^2 / 2 +
# v^2 is least at 1/3.
NASH, STACKELBERG = 1 / 2, 1 / 3


class TwoParameterGame(MessageGame):
    """A game in one parameter of each player: the bias of its last layer."""

    def prover_loss(self, problems, *, prover_params=None, verifier_params=None):
        u, v = self._both(prover_params, verifier_params)
        return (u - v).square() / 2

    def verifier_loss(self, problems, labels, rates=(0.0, 0.0), *, prover_params=None, verifier_params=None):
        u, v = self._both(prover_params, verifier_params)
        return (v - 1).square() / 2 + u * v

    def _both(self, prover_params, verifier_params):
        params = (
            prover_params or dict(self.prover.named_parameters()),
            verifier_params or dict(self.verifier.named_parameters()),
        )
        return [of_player[LAST_BIAS][0] for of_player in params]


class TwoParameterTrainer(StackelbergTrainer):
    def make_game(self, prover, verifier, args):
        return TwoParameterGame(prover, verifier, args.rules)


def two_parameter_trainer(folder, **arguments) -> TwoParameterTrainer:
    game = small_game(width=1)
    options = {
        "prover_steps": 10,
        "verifier_steps": 2,
        "num_rounds": 60,
        "learning_rate": 0.05,
        "prover_learning_rate": 0.5,
    }
    options |= {"optim": "sgd", "max_grad_norm": 0.0, "weight_decay": 0.0, "report_to": "none", "save_strategy": "no"}
    rows = [{"inputs": [0.0] * 4, "labels": 0} for _ in range(64)]
    args = StackelbergConfig(str(folder), **{**options, **arguments}, use_cpu=True, disable_tqdm=True)
    return TwoParameterTrainer(game.prover, game.verifier, args=args, train_dataset=rows)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, NASH),
        ({"dynamics": "simultaneous"}, NASH),
        ({"leader_gradient": "unrolled", "unroll_steps": 10}, STACKELBERG),
    ],
    ids=["alternating", "simultaneous", "unrolled"],
)
def test_each_dynamic_finds_its_own_point(tmp_path, arguments, expected):
    trainer = two_parameter_trainer(tmp_path, **arguments)
    trainer.train()
    u, v = (player.get_parameter(LAST_BIAS)[0].item() for player in (trainer.game.prover, trainer.game.verifier))
    assert v == pytest.approx(expected, abs=5e-3)
    assert u == pytest.approx(v, abs=5e-3)


def test_the_unrolled_gradient_agrees_with_finite_differences(tmp_path):
    """And with its closed form: after k steps, du/dv = 1 - (1 - rate)^k."""
    game = TwoParameterGame(*[player.double() for player in small_game(width=1).children()])
    rule = {name: 0.1 for name, _ in game.prover.named_parameters()}
    still = dict.fromkeys(rule, 0.0)
    rule = StepRule("sgd", rule, still, max_grad_norm=0.0)
    snapshot = take_snapshot(game.prover, torch.optim.SGD(game.prover.parameters(), lr=0.1), {}, 0.0)
    assert snapshot.rule == rule

    def leader_loss(bias: torch.Tensor) -> torch.Tensor:
        params = {**dict(game.verifier.named_parameters()), LAST_BIAS: bias}

        def follower_loss(own, batch):
            return game.prover_loss(batch, prover_params=own, verifier_params=params)

        return game.verifier_loss(
            {}, None, prover_params=repeat_steps(follower_loss, [snapshot] * 3), verifier_params=params
        )

    bias = torch.tensor([0.2], dtype=torch.double, requires_grad=True)
    (gradient,) = torch.autograd.grad(leader_loss(bias), bias)
    step = 1e-5
    difference = (leader_loss(bias.detach() + step) - leader_loss(bias.detach() - step)) / (2 * step)
    assert gradient.item() == pytest.approx(difference.item(), abs=1e-8)
    u = game.prover.get_parameter(LAST_BIAS)[0].item()
    response = 0.2 + (u - 0.2) * 0.9**3
    assert gradient.item() == pytest.approx(0.2 - 1 + response + 0.2 * (1 - 0.9**3), abs=1e-9)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_the_gradient_through_networks_agrees_with_finite_differences(kind):
    game = small_game().double()
    generator = torch.Generator().manual_seed(0)
    batch = {"inputs": torch.randn(8, 4, generator=generator, dtype=torch.double)}
    labels = torch.tensor([0, 1] * 4)
    snapshots = [take_snapshot(game.prover, optimizer_of(kind, game.prover), batch, 0.0)] * 2
    original = {name: p.detach().clone() for name, p in game.verifier.named_parameters()}

    def leader_loss(bias: torch.Tensor) -> torch.Tensor:
        params = {**original, LAST_BIAS: bias}

        def follower_loss(own, rows):
            return game.prover_loss(rows, prover_params=own, verifier_params=params)

        return game.verifier_loss(
            batch, labels, prover_params=repeat_steps(follower_loss, snapshots), verifier_params=params
        )

    bias = original[LAST_BIAS].requires_grad_(True)
    (gradient,) = torch.autograd.grad(leader_loss(bias), bias)
    step = 1e-5
    difference = (leader_loss(bias.detach() + step) - leader_loss(bias.detach() - step)) / (2 * step)
    assert gradient.item() == pytest.approx(difference.item(), rel=1e-4, abs=1e-7)
