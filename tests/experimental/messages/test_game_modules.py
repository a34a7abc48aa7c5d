"""Whose parameters a loss reaches, and what each player sees."""

import pytest
import torch

from pvg_hf.experimental.messages.game_modules import GameRules, MessageGame, frozen
from pvg_hf.experimental.messages.mlp_players import (
    MessageMLPProver,
    MessageMLPProverConfig,
    MessageMLPVerifier,
    MessageMLPVerifierConfig,
)
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
