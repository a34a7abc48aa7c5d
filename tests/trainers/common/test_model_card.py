"""Model cards of the trainers."""

import pytest
from huggingface_hub import ModelCard
from peft import LoraConfig

from pvg_hf.core.project import PROJECT_URL
from tests.support.prover_training import LORA, prover_trainer
from tests.support.verifier_training import text_pairs, verifier_trainer


@pytest.fixture
def verifier(tmp_path, words):
    peft_config = LoraConfig(r=2, target_modules="all-linear")
    return verifier_trainer(tmp_path, text_pairs(8), words, peft_config=peft_config, noise_rho0=0.2, max_steps=1)


def test_a_verifiers_card_names_the_package_the_paper_and_the_settings(verifier, tmp_path):
    verifier.save_model(str(tmp_path / "verifier"))
    card = ModelCard.load(tmp_path / "verifier" / "README.md")
    assert card.data.base_model is None
    assert card.data.library_name == "peft"
    assert {"pvg_hf", "arxiv:2407.13692"} <= set(card.data.tags)
    assert "| `noise_rho0` | 0.2 |" in card.text
    assert f"`NoisyRewardTrainer` of [pvg_hf]({PROJECT_URL})" in card.text
    assert "kirchner2024proververifier" in card.text
    for word in ("None", "More Information Needed", "Model Card for Model ID", str(tmp_path)):
        assert word not in card.content


@pytest.mark.parametrize("rates", [{"flip_rate": 0.1}, {"rho0": 0.1, "rho1": 0.2}], ids=["pairs", "labels"])
def test_a_verifiers_card_states_the_rates_that_its_correction_assumes(rates, tmp_path, words):
    verifier_trainer(tmp_path, text_pairs(8), words, correction="forward", **rates).create_model_card()
    card = ModelCard.load(tmp_path / "out" / "README.md")
    stated = {"correction": "forward", **rates}
    assert [name for name, value in stated.items() if f"| `{name}` | {value} |" not in card.text] == []


def test_a_provers_card_cites_the_game_and_not_another_paper(prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path, peft_config=LORA)
    trainer.create_model_card(model_name="mine", dataset_name="ana/problems", tags="pens")
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert "DeepSeekMath" not in card.content
    assert "kirchner2024proververifier" in card.text
    assert "# mine" in card.text
    assert card.data.datasets == ["ana/problems"]
    assert "pens" in card.data.tags
    assert "| `beta` |" in card.text
    assert prover not in card.content


def test_a_base_on_the_hub_is_named(verifier, tmp_path):
    verifier.model.config._name_or_path = "Qwen/Qwen3-0.6B"
    verifier.create_model_card()
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert card.data.base_model == "Qwen/Qwen3-0.6B"
    assert "[Qwen/Qwen3-0.6B](https://huggingface.co/Qwen/Qwen3-0.6B)" in card.text


def test_a_card_that_cannot_be_written_fails_before_the_training(verifier, monkeypatch):
    monkeypatch.setattr(type(verifier), "card_settings", ("no_such_setting",))
    with pytest.raises(KeyError, match="no_such_setting"):
        verifier.train()
    assert verifier.state.global_step == 0
