"""Games that are trained together equal separate ones."""

import pytest
import torch

from pvg_hf.experimental.messages.building import make_players, open_world, training_arguments
from pvg_hf.experimental.messages.game_modules import MessageGame
from pvg_hf.experimental.messages.stackelberg_trainer import StackelbergTrainer
from pvg_hf.experimental.messages.vectorized import train_stacked
from tests.support.message_games import small_recipe


def stacked(recipe, loaded, seeds, source="prover"):
    args = training_arguments(recipe, "unused", source)
    games = [MessageGame(*make_players(recipe, loaded, seed), args.rules) for seed in seeds]
    losses = list(train_stacked(games, seeds, loaded.train, args))
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
        ["noise={rho0: 0.3, rho1: 0.1}", "training.correction=forward", "training.entropy_bonus=0.1"],
        ["noise.epsilon=0.4", "noise.resample=step", "noise.schedule={kind: linear, length: 4}"],
    ],
    ids=["noise", "schedule", "simultaneous", "correction", "noise-schedule"],
)
def test_games_equal_those_of_the_trainer(tmp_path, overrides):
    recipe = small_recipe(*overrides, "training.num_rounds=4")
    loaded = open_world(recipe)
    seeds = (3, 4)
    games, losses = stacked(recipe, loaded, seeds)
    assert len(losses) == 4
    for seed, game in zip(seeds, games):
        own = small_recipe(*overrides, "training.num_rounds=4", f"seed={seed}")
        trainer = StackelbergTrainer(
            *make_players(own, loaded, seed),
            args=training_arguments(own, tmp_path, "prover"),
            train_dataset=loaded.train,
        )
        trainer.train()
        assert_close(game, trainer.game)


@pytest.mark.parametrize("source", ["none", "witness"])
def test_controls_can_be_stacked(tmp_path, source):
    recipe = small_recipe("controls=[witness]")
    loaded = open_world(recipe)
    (game,), _ = stacked(recipe, loaded, [0], source)
    args = training_arguments(recipe, tmp_path, source)
    trainer = StackelbergTrainer(*make_players(recipe, loaded, 0), args=args, train_dataset=loaded.train)
    trainer.train()
    assert_close(game, trainer.game)


def test_dropout_and_discrete_messages_are_drawn_from_the_seed():
    recipe = small_recipe("messages.form=discrete", "prover.dropout=0.2")
    loaded = open_world(recipe)
    runs = []
    for outside in (0, 1):
        torch.manual_seed(outside)  # draws of the caller do not matter
        games, losses = stacked(recipe, loaded, [0, 1])
        assert all(torch.isfinite(torch.tensor(entry["prover_loss"])).all() for entry in losses)
        runs.append([parameter for game in games for parameter in game.parameters()])
        assert torch.initial_seed() == outside
    assert all(torch.equal(first, second) for first, second in zip(*runs))


def test_a_loss_that_is_not_finite_names_its_seed():
    recipe = small_recipe()
    loaded = open_world(recipe)
    args = training_arguments(recipe, "unused", "prover")
    games = [MessageGame(*make_players(recipe, loaded, seed), args.rules) for seed in (5, 6)]
    with torch.no_grad():
        games[1].verifier.network[0].weight.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match=r"prover's loss is not finite in round 0 with the seed\(s\) \[6\]"):
        list(train_stacked(games, (5, 6), loaded.train, args))


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("training.prover_steps=best_response", "best_response"),
        ("training.leader_gradient=unrolled", "unrolled"),
    ],
)
def test_games_whose_steps_differ_cannot_be_stacked(override, match):
    recipe = small_recipe(override)
    with pytest.raises(ValueError, match=match):
        stacked(recipe, open_world(recipe), [0, 1])
