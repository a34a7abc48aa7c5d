"""A verifier that scores by likelihood, from its game to what its card does with it."""

import pandas as pd
import pytest

from pvg_hf import VerifierScorer, load_recipe, play
from pvg_hf.core.integrity import read_json
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifier_quality import best_separation
from pvg_hf.models.verifier_model import load_verifier
from pvg_hf.run.layout import RunFolder

pytestmark = pytest.mark.game


def _play(folder, make_recipe, **changes) -> RunFolder:
    play(load_recipe(make_recipe(folder, verifier__kind="likelihood", num_rounds=1, **changes)))
    return RunFolder(folder / "game")


def test_the_card_gives_the_scorers_score(hub, client, make_recipe, tmp_path):
    run, row = _play(tmp_path, make_recipe), ("Box 7?", "#### 3")
    expected = VerifierScorer.from_pretrained(run.verifier(0))([row[0]], [row[1]])[0]
    client("push", str(run.root), 0)
    card = hub.repo("game-verifier").files("round-000")["README.md"].decode()
    assert client("run_card", card, f"score(*{row!r})") == pytest.approx(expected, abs=1e-5)
    assert "mean log-probability" in card


def test_zero_separates_best_and_the_stored_scores_are_those_of_the_loaded_verifier(make_recipe, tmp_path):
    run = _play(tmp_path, make_recipe)
    assert read_json(run.verifier(0) / "verifier_input.json")["likelihood_bias"] > 0  # log-probabilities are below 0
    rows = pd.read_parquet(run.verifier(0) / "heldout.parquet")
    found = VerifierScorer.from_pretrained(run.verifier(0))(rows["problem"].tolist(), rows["solution"].tolist())
    assert found == pytest.approx(rows["score"].tolist(), abs=1e-4)
    able = scored_rows(rows)
    assert best_separation(able["score"], able["correct"]) == pytest.approx(0, abs=1e-6)


def test_an_adapter_on_the_provers_own_base_is_trained_on_pairs(make_recipe, tmp_path):
    adapters = {"r": 2}
    run = _play(tmp_path, make_recipe, verifier__lora=adapters, verifier__shares_base=True, prover__lora=adapters)
    assert read_json(run.verifier(0) / "pairs.json")["pairs/num_pairs"] > 0
    assert read_json(run.verifier(0) / "adapter_config.json")["task_type"] == "CAUSAL_LM"
    model, _ = load_verifier(run.verifier(0))
    moved = [tensor.abs().sum().item() for name, tensor in model.state_dict().items() if "lora_B" in name]
    assert min(moved) > 0
