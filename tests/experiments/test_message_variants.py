"""Variants of a message game side by side, and the recipes on texts with small encoders and local files."""

import json
from pathlib import Path

import pytest
import yaml

from experiments.message_variants import compare_variants, variants_table
from pvg_hf.experimental.messages.building import open_world
from pvg_hf.experimental.messages.recipe import load_message_recipe
from pvg_hf.experimental.messages.run import play_messages
from tests.support.message_games import SMALL

RECIPES = Path(__file__).parents[2] / "recipes" / "messages"


@pytest.fixture
def small(tmp_path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL))
    return path


def test_variants_are_played_with_every_control_and_seed(small):
    variants = {"plain": [], "unrolled": ["training.leader_gradient=unrolled", "controls=[]"]}
    table = compare_variants(small, ["training.num_rounds=1"], variants, [0, 1])
    assert list(zip(table["variant"], table["message"], table["seed"])) == [
        *(("plain", message, seed) for message in ("prover", "none") for seed in (0, 1)),
        *(("unrolled", "prover", seed) for seed in (0, 1)),
    ]
    assert (table["accuracy_low"] <= table["accuracy"]).all()
    # Noise is that of the variant, also if only one class is affected.
    noisy = compare_variants(small, ["training.num_rounds=1"], {"noisy": ["noise.rho1=0.6", "controls=[]"]}, [0, 1])
    assert (noisy["clean_loss"].to_numpy() != table["clean_loss"].to_numpy()[:2]).all()
    rows = variants_table(table).splitlines()
    assert len(rows) == 5
    assert rows[2].startswith("| plain | prover | 2 | ")


@pytest.mark.parametrize(
    ("mistake", "match"),
    [("training.num_round=1", "Did you mean `num_rounds`"), ("world.options.num_equation=9", "`num_equation`")],
    ids=["key", "world"],
)
def test_a_mistake_in_the_last_variant_is_found_before_the_first_is_played(small, mistake, match):
    endless = "training.num_rounds=100000"
    with pytest.raises(ValueError, match=match):
        compare_variants(small, [], {"first": [endless], "last": [mistake]}, [0])


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("snli", {"premise": "A dog runs.", "hypothesis": "An animal moves.", "label": 0}),
        ("fever", {"evidence": "Ana was born in 1990.", "claim": "Ana was born in 1990.", "label": "SUPPORTS"}),
    ],
)
def test_recipes_on_texts_play_from_local_files(tmp_path, name, row):
    other = {"snli": {"label": 2}, "fever": {"label": "REFUTES"}}[name]
    for split in ("train", "test"):
        lines = [json.dumps(row | (other if index % 2 else {})) for index in range(24)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    sizes = "vocab_size: 300, dim: 16, n_layers: 1, n_heads: 2, hidden_dim: 16"
    encoder = f"{{model_type: distilbert, {sizes}}}"
    settings = [
        f"prover.encoder={encoder}",
        f"verifier.encoder={encoder}",
        f"world.options.path={tmp_path}",
        "device=cpu",
    ]
    settings += ["training.num_rounds=1", "training.batch_size=8", "max_length=32", f"output_dir={tmp_path / 'runs'}"]
    settings += ["judging.fresh_prover_steps=2", "judging.attack_steps=2", "judging.attack_restarts=1"]
    recipe = load_message_recipe(RECIPES / f"{name}.yaml", settings)
    assert len(open_world(recipe).train) == 24
    assert (play_messages(recipe).root / "report.html").exists()
