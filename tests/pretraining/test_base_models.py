"""Building the base models, and the quality of those that ship."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import PACKAGED, resolve_model
from pvg_hf.pretraining.base_models import BASE_MODELS, _rows_in_order, train_base_model
from pvg_hf.pretraining.quality import measure
from pvg_hf.pretraining.texts import NOT_LEARNED
from pvg_hf.tasks.arithmetic.comparisons import puzzle_of
from pvg_hf.tasks.arithmetic.comparisons.flaw_detection import check_solution

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
            config, hidden_size=40, num_layers=1, num_heads=4, intermediate_size=16, num_steps=3, batch_size=4
        )
        for player, config in BASE_MODELS.items()
    }


@pytest.mark.parametrize("player", BASE_MODELS)
def test_equal_seeds_give_equal_models(small, player):
    first, again = (train_base_model(small[player], show_progress=False).state_dict() for _ in range(2))
    other = train_base_model(replace(small[player], seed=1), show_progress=False).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def read_rows(player, **changes):
    """Texts of training rows, and the part of each that is learned."""
    config = replace(BASE_MODELS[player], **changes)
    tokenizer = config.build_tokenizer()
    for row in _rows_in_order(config):
        learned = [label for label in row["labels"] if label != NOT_LEARNED]
        yield tokenizer.decode(row["input_ids"]), tokenizer.decode(learned)


@pytest.mark.parametrize(("player", "before"), [("prover", "solution:\n"), ("verifier", "have?\n")])
def test_solutions_and_their_end_are_learned(player, before):
    for text, learned in read_rows(player, num_steps=16, batch_size=2):
        assert learned == text.partition(before)[2]
        assert learned.endswith("</s>")
        assert "####" in learned


def test_a_verifier_reads_correct_and_incorrect_solutions():
    """Without a word of which is which."""
    correct = Counter()
    for text, solution in read_rows("verifier", num_steps=64, batch_size=4):
        problem = text.removesuffix(f"\n{solution}")
        correct[int(solution.removesuffix("</s>").rpartition("#### ")[2]) == puzzle_of(problem).answer] += 1
    assert min(correct.values()) > 30


def test_problems_and_forms_of_solutions_grow_harder():
    read = []
    for text, solution in read_rows("prover", num_steps=320, batch_size=2):
        problem = text.rpartition("?\n")[0] + "?"
        reading = check_solution(puzzle_of(problem), solution.removesuffix("</s>"))
        read.append((len(puzzle_of(problem).calculated), reading))
    first, last = read[:64], read[-64:]
    assert {difficulty for difficulty, _ in first} == {2}
    assert max(difficulty for difficulty, _ in last) == 6
    # The first solutions are explicit, with 80 % of the comparisons cited; the last are of all styles.
    implicit = [
        np.mean([reading.implicit_share for _, reading in part if not reading.flaws]) for part in (first, last)
    ]
    assert implicit[0] < 0.15
    assert implicit[1] > 0.3


@pytest.mark.parametrize("player", BASE_MODELS)
def test_batches_hold_rows_of_similar_length(player):
    config = replace(BASE_MODELS[player], num_steps=160, batch_size=4)
    lengths = [len(row["input_ids"]) for row in _rows_in_order(config)]
    assert len(lengths) == 160 * 4
    assert max(lengths) <= config.max_length
    assert max(lengths[:64]) < max(lengths[-64:])
    batches = [lengths[start : start + 4] for start in range(0, len(lengths), 4)]
    padding = sum(max(batch) * 4 - sum(batch) for batch in batches) / sum(lengths)
    assert padding < 0.05


@pytest.mark.parametrize("player", SHIPPED)
def test_packaged_models_are_small_and_match_the_tokenizers_in_the_code(player):
    weights = SHIPPED[player] / "model.safetensors"
    assert weights.stat().st_size <= 6_000_000
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
