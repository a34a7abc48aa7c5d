"""The script that builds the base models, and the judges, with models of tiny sizes."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from transformers import AutoModelForSequenceClassification

from pvg_hf.scoring import VerifierScorer
from tools.pretraining.base_models import (
    BASE_MODELS,
    STUDY_MODELS,
    Built,
    initial_model,
    train_base_model,
    write_card,
)
from tools.pretraining.judges import JUDGES, train_judge, write_judge_card
from tools.pretraining.texts import Stage

FIGURES = Built(num_parameters=1_230_000, flops=6e10, minutes=12.4, figures={"a figure": 0.5})


def test_a_verifiers_card_states_its_share_of_the_provers_pretraining():
    card = " ".join(write_card(BASE_MODELS["verifier"], FIGURES, 4e12).split())
    assert "6.0e+10 operations, 1.5e-02 of the prover's 4.0e+12 (Kirchner et al. 2024: 1e-3 to 1.6e-2 works" in card
    assert "1.23 M parameters" in card
    assert "| a figure | 0.500 |" in card
    assert "of the prover's" not in write_card(BASE_MODELS["prover"], FIGURES, None)
    judge = " ".join(write_judge_card(JUDGES["judge"], FIGURES, 4e12).split())
    assert "from `arithmetic-verifier`" in judge
    assert "1.5e-02 of the prover's" in judge


@pytest.mark.nightly
def test_the_script_builds_a_model_and_its_card(tmp_path, repository):
    """Two steps of training; the prover that is in the folder already is what its operations are compared with."""
    prover = tmp_path / "arithmetic-prover" / "config.json"
    prover.parent.mkdir()
    prover.write_text(json.dumps({"pretraining_flops": 1e12}))
    options = ["--player", "small-verifier", "--steps", "2", "--output", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "tools.build_base_models", *options], cwd=repository, check=True)
    built = tmp_path / "arithmetic-verifier-small"
    flops = json.loads((built / "config.json").read_text())["pretraining_flops"]
    card = (built / "README.md").read_text()
    assert "on 64 texts of the" in card
    assert f"{flops:.1e} operations, {flops / 1e12:.1e} of the prover's 1.0e+12" in card
    assert card.count("flawless ranked above") > 3
    assert sorted(path.name for path in built.iterdir() if path.is_dir()) == []  # no checkpoints
    assert (built / "model.safetensors").exists()


def test_models_for_experiments_have_names_of_their_own():
    assert not {config.name for config in STUDY_MODELS.values()} & {config.name for config in BASE_MODELS.values()}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """
    Folder of a prover that has learned to write solutions of easy problems, right ones now and then, and of a verifier
    with random weights.
    """
    folder = tmp_path_factory.mktemp("bases")
    easy = (Stage(1.0, ("explicit",), flaws=0),)
    sizes = {"hidden_size": 64, "num_layers": 2, "num_heads": 4, "intermediate_size": 96}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tools.pretraining.texts.CURRICULUM", easy)
        prover = replace(BASE_MODELS["prover"], **sizes, num_steps=400, batch_size=16, max_difficulty=2)
        model = train_base_model(prover, folder / "checkpoints", show_progress=False)
        prover.save(model, folder / prover.name)
    verifier = replace(BASE_MODELS["small-verifier"], hidden_size=24, num_layers=1, num_heads=2, intermediate_size=32)
    model = initial_model(verifier)
    model.config.pretraining_flops = 1000.0
    verifier.save(model, folder / verifier.name)
    return folder


@pytest.mark.nightly
def test_a_judge_is_a_classifier_that_has_learned_from_the_provers_solutions(bases):
    config = replace(JUDGES["small-judge"], num_problems=200, max_difficulty=2, num_steps=20, pairs_per_step=8)
    built = train_judge(config, bases, num_test=40)
    names = ("all", "explicit", "partly", "implicit")
    assert list(built.figures) == [f"correct ranked above incorrect, {name}" for name in names]
    assert 0 <= built.figures["correct ranked above incorrect, all"] <= 1
    assert not list((bases / config.name).glob("*.bin"))  # no pickles
    model = AutoModelForSequenceClassification.from_pretrained(bases / config.name)
    assert model.config.num_labels == 1
    assert built.num_parameters == model.num_parameters()
    # 20 steps of 8 pairs of texts of 30 to 150 tokens, besides what it starts with
    assert 20 * 16 * 30 < (built.flops - 1000) / (6 * built.num_parameters) < 20 * 16 * 150
    assert model.config.pretraining_flops == pytest.approx(built.flops)
    scores = VerifierScorer.from_pretrained(bases / config.name)(["Ana has 3 pens."] * 2, ["#### 3", "#### 4"])
    assert len(set(scores)) == 2
