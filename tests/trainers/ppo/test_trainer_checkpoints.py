"""A critic is saved with its prover, read back, and gone on with to the bit."""

import logging
import shutil
from filecmp import cmp
from pathlib import Path

import pytest

from pvg_hf.models.value_model import CRITIC_FOLDER, load_value_model
from tests.support.ppo_training import make_scorer, ppo_trainer
from tests.support.prover_training import LORA, loss_lines, prover_trainer, role_rows, score_texts
from tests.support.weights import weights_of


@pytest.mark.parametrize("structure", ["adapter", "verifier"])
def test_a_continued_training_is_the_whole_one(structure, prover, tmp_path):
    def make(folder):
        scorer = make_scorer(prover) if structure == "verifier" else score_texts
        settings = {"save_strategy": "steps", "save_steps": 2}
        peft_config = LORA if structure == "adapter" else None
        return ppo_trainer(prover, folder, critic=structure, scorer=scorer, settings=settings, peft_config=peft_config)

    whole = make(tmp_path)
    whole.train()
    shutil.rmtree(tmp_path / "out" / "checkpoint-4")
    continued = make(tmp_path)
    continued.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    for mine, other in ((continued.model, whole.model), (continued.critic.model, whole.critic.model)):
        weights = weights_of(other)
        assert [name for name, weight in mine.named_parameters() if not weight.equal(weights[name])] == []
    untimed = [
        {key: value for key, value in line.items() if "time" not in key and "second" not in key}
        for trainer in (continued, whole)
        for line in loss_lines(trainer)
    ]
    assert untimed[:4] == untimed[4:]


@pytest.mark.parametrize("trainer", [prover_trainer, ppo_trainer], ids=["grpo", "ppo"])
@pytest.mark.parametrize("save_steps", [1, 2])
def test_checkpoints_within_a_batch_are_warned_of(save_steps, trainer, prover, tmp_path, caplog):
    settings = {"num_iterations": 2, "save_strategy": "steps", "save_steps": save_steps}
    with caplog.at_level(logging.WARNING, logger="pvg_hf"):
        trainer(prover, tmp_path, settings=settings)
    warnings = [record.getMessage() for record in caplog.records if "`save_steps`" in record.getMessage()]
    assert len(warnings) == (save_steps == 1)
    assert all("`save_steps` is 1, and a generated batch is trained on for 2 steps: take a" in w for w in warnings)


def test_what_is_saved_can_be_a_critic_again(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, settings={"max_steps": 2})
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    again = load_value_model(tmp_path / "saved" / CRITIC_FOLDER)
    weights = weights_of(trainer.critic.model)
    assert all(weight.equal(weights[name]) for name, weight in again.named_parameters())
    assert again.score.weight.any()
    next_one = ppo_trainer(prover, tmp_path, critic=str(tmp_path / "saved" / CRITIC_FOLDER))
    assert next_one.critic.model.score.weight.equal(trainer.critic.model.score.weight)


@pytest.mark.parametrize("peft_config", [None, LORA], ids=["whole", "adapter"])
def test_the_best_policy_comes_with_its_own_critic(peft_config, prover, tmp_path):
    settings = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2}
    # The tokens so far are fewest at the first checkpoint.
    settings |= {"load_best_model_at_end": True, "metric_for_best_model": "num_tokens", "greater_is_better": False}
    trainer = ppo_trainer(prover, tmp_path, settings=settings, peft_config=peft_config, eval_dataset=role_rows())
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    best, last = tmp_path / "out" / "checkpoint-2", tmp_path / "out" / "checkpoint-4"
    assert trainer.state.best_model_checkpoint == str(best)
    weights = "model.safetensors" if peft_config is None else "adapter_model.safetensors"
    for file in (Path(weights), CRITIC_FOLDER / weights):
        assert cmp(tmp_path / "saved" / file, best / file, shallow=False)
        assert not cmp(last / file, best / file, shallow=False)


def test_a_checkpoint_without_a_critic_is_refused(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, settings={"save_strategy": "steps", "save_steps": 2, "max_steps": 2})
    trainer.train()
    shutil.rmtree(tmp_path / "out" / "checkpoint-2" / "critic")
    with pytest.raises(ValueError, match="checkpoint-2` holds no critic"):
        ppo_trainer(prover, tmp_path).train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
