"""Games that are trained together equal separate ones."""

import pytest
import torch

from pvg_hf.messages.building import make_players, open_world, training_arguments
from pvg_hf.messages.game_modules import MessageGame
from pvg_hf.messages.stackelberg_trainer import StackelbergTrainer
from pvg_hf.messages.vectorized import StackedCell, train_stacked
from tests.support.message_games import small_recipe


def stacked(recipe, loaded, cells, source="prover"):
    args = training_arguments(recipe, "unused", source)
    games = [MessageGame(*make_players(recipe, loaded, cell.seed), args.rules) for cell in cells]
    losses = list(train_stacked(games, cells, loaded.train, args))
    return games, losses


def assert_close(ours: MessageGame, theirs: MessageGame) -> None:
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        # Batched products round differently, and AdamW's first steps amplify the rounding of small gradients.
        assert torch.allclose(a, b, atol=2e-4), (name, (a - b).abs().max())


@pytest.mark.parametrize(
    "overrides",
    [
        ["noise.epsilon=0.2"],
        ["noise.epsilon=0.2", "noise.resample=epoch", "training.prover_schedule=linear"],
        ["training.dynamics=simultaneous", "training.prover_learning_rate=0.002", "verifier.num_logits=2"],
        ["noise.epsilon=0.1", "training.correction=forward", "training.entropy_bonus=0.1"],
        ["noise.epsilon=0.4", "noise.resample=step", "noise.schedule={kind: linear, length: 4}"],
    ],
    ids=["noise", "schedule", "simultaneous", "correction", "noise-schedule"],
)
def test_games_equal_those_of_the_trainer(tmp_path, overrides):
    recipe = small_recipe(*overrides, "training.num_rounds=4")
    loaded = open_world(recipe)
    cells = [StackedCell(seed, recipe.noise.epsilon or 0.0) for seed in (3, 4)]
    games, losses = stacked(recipe, loaded, cells)
    assert len(losses) == 4
    for cell, game in zip(cells, games):
        own = small_recipe(*overrides, "training.num_rounds=4", f"seed={cell.seed}")
        trainer = StackelbergTrainer(
            *make_players(own, loaded, cell.seed),
            args=training_arguments(own, tmp_path, "prover"),
            train_dataset=loaded.train,
        )
        trainer.train()
        assert_close(game, trainer.game)


@pytest.mark.parametrize("source", ["none", "witness"])
def test_controls_can_be_stacked(tmp_path, source):
    recipe = small_recipe("controls=[witness]")
    loaded = open_world(recipe)
    (game,), _ = stacked(recipe, loaded, [StackedCell(0, 0.0)], source)
    args = training_arguments(recipe, tmp_path, source)
    trainer = StackelbergTrainer(*make_players(recipe, loaded, 0), args=args, train_dataset=loaded.train)
    trainer.train()
    assert_close(game, trainer.game)


def test_each_game_has_its_own_noise():
    recipe = small_recipe()
    loaded = open_world(recipe)
    levels = [StackedCell(0, 0.0), StackedCell(0, 0.4)]
    together, _ = stacked(recipe, loaded, levels)
    for cell, game in zip(levels, together):
        (alone,), _ = stacked(recipe, loaded, [cell])
        assert_close(game, alone)
    weights = [game.verifier.network[0].weight for game in together]
    assert not torch.allclose(*weights, atol=2e-4)


def test_discrete_messages_and_dropout_can_be_stacked():
    recipe = small_recipe("messages.form=discrete", "prover.dropout=0.2")
    _, losses = stacked(recipe, open_world(recipe), [StackedCell(0, 0.0), StackedCell(1, 0.1)])
    assert all(torch.isfinite(torch.tensor(entry["prover_loss"])).all() for entry in losses)


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("training.prover_steps=best_response", "best_response"),
        ("training.leader_gradient=unrolled", "unrolled"),
        ("training.correction=forward", "`correction` is `forward`"),
    ],
)
def test_games_whose_steps_differ_cannot_be_stacked(override, match):
    recipe = small_recipe(override)
    with pytest.raises(ValueError, match=match):
        stacked(recipe, open_world(recipe), [StackedCell(0, 0.0), StackedCell(0, 0.2)])
