"""Players of each kind, built from recipes, play in their worlds."""

import pytest
import torch

from pvg_hf.config import RecipeError
from pvg_hf.core.integrity import read_json
from pvg_hf.experimental.messages.building import make_players, open_world, training_arguments
from pvg_hf.experimental.messages.checking_verifier import CheckingVerifier
from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.experimental.messages.run import play_messages
from tests.support.message_games import SMALL, small_recipe

ENCODER = {
    "model_type": "bert",
    "vocab_size": 300,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}
TEXTS = {
    **SMALL,
    "world": {"name": "stand_in", "options": {"num_train": 48, "num_test": 16}},
    "max_length": 64,
    "messages": {"width": 4, "form": "discrete"},
    "prover": {"kind": "transformer", "encoder": ENCODER},
    "verifier": {"kind": "transformer", "encoder": ENCODER, "num_logits": 2},
}


def test_a_game_on_texts_is_played(tmp_path):
    folder = play_messages(load_message_recipe({**TEXTS, "output_dir": str(tmp_path)}))
    judged = read_json(folder.judgement)
    assert judged["prover"]["accuracy"]["n"] == 16
    assert (folder.game("prover") / "verifier" / "model.safetensors").exists()


@pytest.mark.parametrize(
    "encoder", [{**ENCODER, "vocab_size": 400}, {"model_type": "bert"}], ids=["another-vocabulary", "no-size"]
)
def test_players_read_the_same_tokens(encoder):
    with pytest.raises(RecipeError, match="vocab_size"):
        open_world(load_message_recipe({**TEXTS, "verifier": {"kind": "transformer", "encoder": encoder}}))


@pytest.mark.parametrize(("start", "num_checks"), [("parity", 3), ("random", 32)])
def test_a_checking_verifier_is_built(start, num_checks):
    recipe = load_message_recipe({**SMALL, "verifier": {"kind": "checking", "start": start}})
    _, verifier = make_players(recipe, open_world(recipe), 0)
    assert isinstance(verifier, CheckingVerifier)
    assert verifier.config.num_checks == num_checks


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_an_error():
    with pytest.raises(RecipeError, match="`device` is `cuda`"):
        training_arguments(small_recipe("device=cuda"), "unused", "prover")


def test_weights_depend_on_the_seed_alone():
    recipe = small_recipe()
    loaded = open_world(recipe)
    weights = [make_players(recipe, loaded, seed)[0].network[0].weight for seed in (0, 0, 1)]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_new_encoders_read_a_first_token_that_all_texts_share():
    loaded = open_world(load_message_recipe(TEXTS))
    columns, end = loaded.train.columns, loaded.tokenizer.eos_token_id
    assert (columns["input_ids"][:, 0] == end).all()
    assert ((columns["input_ids"] == end).sum(dim=1) == 3).all()  # the first, between the texts, and the last
    assert columns["attention_mask"][:, 0].all()
