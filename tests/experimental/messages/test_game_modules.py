"""Whose parameters a loss reaches, what each player sees, and losses by hand, also at extreme logits."""

import math

import pytest
import torch
import torch.nn.functional as F

from pvg_hf.experimental.messages.game_modules import (
    GameRules,
    MessageGame,
    acceptance_loss,
    acceptance_scores,
    frozen,
    message_entropy,
)
from pvg_hf.experimental.messages.mlp_players import (
    MessageMLPProver,
    MessageMLPProverConfig,
    MessageMLPVerifier,
    MessageMLPVerifierConfig,
)
from pvg_hf.experimental.messages.player_base import MessagePlayerConfig
from pvg_hf.losses import label_losses
from tests.support.message_games import small_game

PROBLEMS = {"inputs": torch.tensor([[1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0]])}
LABELS = torch.tensor([1, 0])


def reached(player) -> bool:
    return any(p.grad is not None and p.grad.abs().sum() > 0 for p in player.parameters())


@pytest.mark.parametrize("turn", ["prover", "verifier"])
def test_a_loss_reaches_only_the_player_whose_turn_it_is(turn):
    game = small_game()
    game(turn, PROBLEMS, LABELS)[turn].backward()
    assert reached(game.get_submodule(turn))
    other = game.verifier if turn == "prover" else game.prover
    assert all(p.grad is None for p in other.parameters())
    assert all(p.requires_grad for p in game.parameters())


def test_simultaneous_losses_reach_each_its_player():
    separate = {turn: small_game() for turn in ("prover", "verifier")}
    for turn, game in separate.items():
        game(turn, PROBLEMS, LABELS)[turn].backward()
    both = small_game()
    sum(both("both", PROBLEMS, LABELS).values()).backward()
    for turn, game in separate.items():
        pairs = zip(both.get_submodule(turn).parameters(), game.get_submodule(turn).parameters())
        assert all(torch.equal(ours.grad, theirs.grad) for ours, theirs in pairs)


def test_a_frozen_player_is_in_evaluation_mode_and_then_as_before():
    game = small_game().train()
    fixed = game.verifier.network[0].weight.requires_grad_(False)
    with frozen(game.verifier):
        assert not game.verifier.training
        assert not any(p.requires_grad for p in game.verifier.parameters())
    assert game.verifier.training
    assert not fixed.requires_grad
    assert game.verifier.network[0].bias.requires_grad


def test_players_see_their_own_columns():
    prover = MessageMLPProver(MessageMLPProverConfig(num_inputs=2, message_width=3))
    verifier = MessageMLPVerifier(MessageMLPVerifierConfig(num_inputs=4, message_width=3))
    game = MessageGame(prover, verifier).eval()
    problems = {**PROBLEMS, "prover_inputs": torch.ones(2, 2), "witness": torch.ones(2, 3)}
    message = game.message(problems)
    assert torch.equal(message, prover(torch.ones(2, 2)))
    assert torch.equal(game.scores(problems, message), verifier(message, PROBLEMS["inputs"])[:, 0])


@pytest.mark.parametrize(("source", "expected"), [("none", 0.0), ("witness", 1.0)])
def test_other_messages(source, expected):
    game = small_game(rules=GameRules(source))
    assert game.message({**PROBLEMS, "witness": torch.ones(2, 2)}).tolist() == [[expected] * 2] * 2


def test_players_with_different_messages_are_an_error():
    with pytest.raises(ValueError, match=r"2 entries.*takes 3"):
        MessageGame(small_game(width=2).prover, small_game(width=3).verifier)


def test_scores_of_both_heads():
    assert acceptance_scores(torch.tensor([[2.0], [-1.0]])).tolist() == [2.0, -1.0]
    assert acceptance_scores(torch.tensor([[1.0, 3.0], [4.0, 3.5]])).tolist() == [2.0, -0.5]


@pytest.mark.parametrize("shape", [(3,), (3, 3)], ids=["one-axis", "three-logits"])
def test_other_shapes_are_errors(shape):
    with pytest.raises(ValueError, match=rf"shape \({shape[0]}, ?"):
        acceptance_scores(torch.zeros(shape))


def test_losses_by_hand():
    scores = torch.tensor([0.0, math.log(3)])  # P(accept) of 1/2 and 3/4
    assert acceptance_loss(scores).item() == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)
    losses = label_losses(scores, torch.tensor([1.0, 0.0]), 0.0, 0.0, "none")
    assert losses.tolist() == pytest.approx([math.log(2), math.log(4)])


def test_two_logits_give_the_loss_of_log_softmax():
    logits, labels = torch.tensor([[0.3, -1.2], [2.0, 5.0]]), torch.tensor([0, 1])
    losses = label_losses(acceptance_scores(logits), labels.float(), 0.0, 0.0, "none")
    assert losses.tolist() == pytest.approx(F.cross_entropy(logits, labels, reduction="none").tolist())


@pytest.mark.parametrize(
    "logits", [[[1e4]], [[-1e4]], [[1e4, -1e4]], [[-1e4, 1e4]]], ids=["yes", "no", "no-of-two", "yes-of-two"]
)
def test_losses_are_finite_at_extreme_logits(logits):
    logits = torch.tensor(logits, requires_grad=True)
    scores = acceptance_scores(logits)
    losses = acceptance_loss(scores) + label_losses(scores, torch.ones(1), 0.0, 0.0, "none").sum()
    losses.backward()
    assert torch.isfinite(losses)
    assert torch.isfinite(logits.grad).all()
    # Both are softplus(-s): 0 for a certain yes, and the size of the score for a certain no.
    assert losses.item() == pytest.approx(2 * max(0.0, -scores.item()))


def test_half_precision_becomes_single():
    assert acceptance_scores(torch.zeros(2, 1, dtype=torch.bfloat16)).dtype == torch.float32


def test_entropy_of_messages():
    continuous, discrete = (
        MessagePlayerConfig(message_width=2),
        MessagePlayerConfig(message_width=1, message_form="discrete"),
    )
    # The first entry is 1 for one problem of two: log 2. The second is always 1: 0.
    assert message_entropy(torch.tensor([[1.0, 1.0], [-1.0, 1.0]]), continuous).item() == pytest.approx(
        math.log(2) / 2
    )
    assert message_entropy(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), discrete).item() == pytest.approx(math.log(2))
    assert message_entropy(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), discrete).item() == 0
