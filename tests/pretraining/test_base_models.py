"""Building the base models of the arithmetic task, and the quality of those that ship."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import PACKAGED, resolve_model
from pvg_hf.pretraining.base_models import BASE_MODELS, _rows_in_order, initial_model, train_base_model
from pvg_hf.pretraining.quality import measure
from pvg_hf.pretraining.texts import NOT_LEARNED
from pvg_hf.pretraining.tokenizers import build_arithmetic_tokenizer

SHIPPED = {
    "prover": Path(resolve_model("arithmetic", "prover")),
    "verifier": Path(resolve_model("arithmetic", "verifier")),
    "score-verifier": Path(resolve_model("proofs", "verifier")),
}


@pytest.fixture
def small():
    """A configuration that trains in a second or two."""
    return {
        player: replace(
            config, hidden_size=40, num_layers=1, intermediate_size=16, num_steps=3, batch_size=4, start=None
        )
        for player, config in BASE_MODELS.items()
    }


@pytest.mark.parametrize("player", BASE_MODELS)
def test_equal_seeds_give_equal_models(small, player):
    first, again = (train_base_model(small[player], show_progress=False).state_dict() for _ in range(2))
    other = train_base_model(replace(small[player], seed=1), show_progress=False).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_a_model_that_starts_from_another_has_its_weights():
    config = BASE_MODELS["score-verifier"]
    start, model = load_prover(SHIPPED[config.start])[0].state_dict(), initial_model(config).state_dict()
    assert start.keys() == model.keys()
    for name, value in start.items():
        assert torch.equal(model[name][: len(value)], value)
    assert len(model["model.embed_tokens.weight"]) > len(start["model.embed_tokens.weight"])


def test_a_prover_learns_completions_and_their_end():
    tokenizer, config = build_arithmetic_tokenizer(), replace(BASE_MODELS["prover"], num_steps=16, batch_size=2)
    for row in _rows_in_order(config):
        text, learned = tokenizer.decode(row["input_ids"]), [label for label in row["labels"] if label != NOT_LEARNED]
        assert tokenizer.decode(learned) == text.partition("solution:\n")[2]
        assert text.endswith(tokenizer.eos_token)


def test_a_verifier_learns_the_verdict_at_the_end_token():
    """A verifier's score is read there."""
    tokenizer, config = build_arithmetic_tokenizer(), replace(BASE_MODELS["verifier"], num_steps=16, batch_size=2)
    for row in _rows_in_order(config):
        assert row["input_ids"][-2] == tokenizer.eos_token_id
        assert tokenizer.decode(row["labels"][-1:]) in (" correct", " incorrect")


@pytest.mark.parametrize("player", BASE_MODELS)
def test_stories_grow_longer_and_batches_hold_rows_of_like_length(player):
    config = replace(BASE_MODELS[player], num_steps=160, batch_size=4)
    lengths = [len(row["input_ids"]) for row in _rows_in_order(config)]
    assert len(lengths) == 160 * 4
    assert max(lengths[:64]) < max(lengths[-64:])
    batches = [lengths[start : start + 4] for start in range(0, len(lengths), 4)]
    padding = sum(max(batch) * 4 - sum(batch) for batch in batches) / sum(lengths)
    assert padding < 0.05


@pytest.mark.parametrize("player", SHIPPED)
def test_packaged_models_are_small_and_match_the_tokenizers_in_the_code(player):
    weights = SHIPPED[player] / "model.safetensors"
    assert weights.stat().st_size <= 3_000_000
    assert (SHIPPED[player] / "README.md").read_text().count("| ") > 4
    built = BASE_MODELS[player].build_tokenizer()
    assert AutoTokenizer.from_pretrained(SHIPPED[player]).get_vocab() == built.get_vocab()


def test_every_packaged_model_is_built_here():
    named = {folder for players in PACKAGED.values() for folder in players.values()}
    assert named == {config.name for config in BASE_MODELS.values()}


def test_the_verifier_is_the_smaller_player():
    sizes = {player: (folder / "model.safetensors").stat().st_size for player, folder in SHIPPED.items()}
    assert sizes["verifier"] < 0.7 * sizes["prover"]


@pytest.mark.slow
@pytest.mark.parametrize("player", SHIPPED)
def test_the_cards_figures_are_the_models(player):
    """The card's command on the shipped weights gives the same figures, up to rounding to three digits."""
    model, _ = load_prover(SHIPPED[player])
    card = (SHIPPED[player] / "README.md").read_text()
    config = BASE_MODELS[player]
    for name, value in measure(config.texts, model, config.build_tokenizer()).items():
        assert f"| {name} | {value:.3f} |" in card
