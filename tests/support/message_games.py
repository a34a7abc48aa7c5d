"""Small message games."""

import torch

from pvg_hf.experimental.messages.building import LoadedWorld, make_players, open_world
from pvg_hf.experimental.messages.game_modules import GameRules, MessageGame
from pvg_hf.experimental.messages.mlp_players import (
    MessageMLPProver,
    MessageMLPProverConfig,
    MessageMLPVerifier,
    MessageMLPVerifierConfig,
)
from pvg_hf.experimental.messages.recipe import MessageRecipe, load_message_recipe

SMALL = {
    "device": "cpu",
    "save_steps": 0,
    "world": {
        "name": "linear_f2",
        "options": {"num_equations": 3, "num_variables": 2, "num_train": 200, "num_test": 60},
    },
    "prover": {"hidden_size": 16, "num_layers": 1},
    "verifier": {"hidden_size": 16, "num_layers": 1},
    "training": {"num_rounds": 2, "prover_steps": 3, "verifier_steps": 2, "batch_size": 16, "learning_rate": 1e-3},
    "judging": {"fresh_prover_steps": 5, "attack_steps": 5, "attack_restarts": 1, "attack_problems": 10},
}


def small_recipe(*overrides: str) -> MessageRecipe:
    """A recipe that is played in a second."""
    return load_message_recipe(SMALL, overrides)


def small_game(
    num_inputs: int = 4, width: int = 2, num_logits: int = 1, rules: GameRules | None = None
) -> MessageGame:
    """A game with players of eight hidden units."""
    torch.manual_seed(0)
    sizes = {"num_inputs": num_inputs, "message_width": width, "hidden_size": 8, "num_layers": 1}
    prover = MessageMLPProver(MessageMLPProverConfig(**sizes))
    return MessageGame(prover, MessageMLPVerifier(MessageMLPVerifierConfig(**sizes, num_logits=num_logits)), rules)


def game_of(recipe: MessageRecipe, loaded: LoadedWorld, seed: int = 0) -> MessageGame:
    """The untrained game of a recipe."""
    return MessageGame(*make_players(recipe, loaded, seed))


def opened(recipe: MessageRecipe) -> LoadedWorld:
    """The recipe's world."""
    return open_world(recipe)
