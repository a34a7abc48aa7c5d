"""`ProverPPOTrainer`: weights, log and checkpoints, and equal steps on one process, on two and in micro-batches."""

import itertools
import json
import logging
import math
import re
import shutil
from filecmp import cmp
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import TrainerCallback

from pvg_hf import load_task
from pvg_hf.core.disk_names import CRITIC_FOLDER
from pvg_hf.models.prover_model import load_causal_lm
from pvg_hf.models.value_model import load_value_model
from pvg_hf.tasks import PromptBuilder
from tests.support.ppo_training import make_scorer, ppo_trainer
from tests.support.prover_training import LORA, loss_lines, prover_trainer, read_completions, role_rows, score_texts
from tests.support.two_processes import run_on_two_processes
from tests.support.weights import moved_since, weights_of
from tests.support.written_batches import STRUCTURES, train

OF_BATCH = {"explained_variance", "critic/value", "critic/return", "accuracy/helpful", "reward/sneaky"}
OF_STEP = {
    "approx_kl",
    "kl",
    "loss/policy",
    "loss/value",
    "critic/clip_ratio",
    "critic/grad_norm",
    "clip_ratio/low_mean",
}


def test_every_weight_of_both_moves_and_the_reference_does_not(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path)
    weights, values, reference = map(weights_of, (trainer.model, trainer.critic.model, trainer.ref_model))
    trainer.train()
    assert moved_since(trainer.model, weights) == set(weights)
    assert moved_since(trainer.critic.model, values) == set(values)
    assert not moved_since(trainer.ref_model, reference)


def test_only_adapters_and_the_value_head_move(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, peft_config=LORA)
    weights, values = weights_of(trainer.model), weights_of(trainer.critic.model)
    trainer.train()
    assert moved_since(trainer.model, weights) == {name for name in weights if "lora_" in name}
    assert moved_since(trainer.critic.model, values) == {n for n in values if "lora_" in n or "modules_to_save" in n}


@pytest.mark.gpu
@pytest.mark.parametrize("peft_config", [None, LORA], ids=["whole", "adapters"])
def test_prover_and_critic_move_on_a_gpu(peft_config, prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, peft_config=peft_config, settings={"use_cpu": False})
    weights, values = weights_of(trainer.model), weights_of(trainer.critic.model)
    trainer.train()
    assert moved_since(trainer.model, weights)
    assert moved_since(trainer.critic.model, values)
    assert {weight.device.type for weight in trainer.critic.model.parameters()} == {"cuda"}


@pytest.mark.parametrize(
    ("quantization", "settings"),
    [("4bit", {}), ("none", {"bf16": True}), ("none", {"activation_checkpointing": True})],
    ids=["4bit", "bf16", "checkpointing"],
)
def test_an_adapter_critic_on_a_base_as_it_is_held_on_small_gpus(quantization, settings, wider_prover, tmp_path):
    model = load_causal_lm(str(wider_prover), quantization=quantization)
    settings = {"max_steps": 3, "cliprange_value": None, **settings}  # the head moves first, then B, then A
    trainer = ppo_trainer(model, tmp_path, peft_config=LORA, settings=settings)
    values = weights_of(trainer.critic.model)
    trained = {name for name in values if "lora_" in name or "modules_to_save" in name}
    assert {values[name].dtype for name in trained} == {torch.float32}
    trainer.train()
    assert moved_since(trainer.critic.model, values) == trained
    assert all(math.isfinite(line["loss/value"]) for line in loss_lines(trainer))


def test_the_verifier_stays_as_it_is(prover, tmp_path):
    scorer = make_scorer(prover)
    before = weights_of(scorer.model)
    trainer = ppo_trainer(prover, tmp_path, critic="verifier", scorer=scorer, settings={"max_steps": 2})
    values = weights_of(trainer.critic.model)
    trainer.train()
    assert moved_since(trainer.critic.model, values) == set(values)
    assert not moved_since(scorer.model, before)


def test_every_documented_metric_is_logged(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, settings={"critic_learning_rate": 1e-3, "log_completions": True})
    trainer.train()
    log = loss_lines(trainer)
    assert [line.keys() >= OF_BATCH for line in log] == [True, False, True, False]  # a batch is two steps
    assert all(line.keys() >= OF_STEP for line in log)
    assert all(math.isfinite(line[key]) for line in log for key in OF_STEP)
    assert [line["approx_kl"] > 1e-6 for line in log] == [
        False,
        True,
        False,
        True,
    ]  # the batch is the policy's own at first
    assert log[0]["kl"] == pytest.approx(0, abs=1e-6)
    assert log[3]["kl"] > 1e-4
    assert all(line["kl_from_base"] == line["kl"] for line in log)
    assert log[0]["critic/value"] == 0.0
    assert log[0]["loss"] == pytest.approx(log[0]["loss/policy"] + 0.1 * log[0]["loss/value"], abs=1e-5)
    assert [group["initial_lr"] for group in trainer.optimizer.param_groups[-1:]] == [1e-3]
    table = read_completions(tmp_path)
    assert len(table) == 16
    assert table["advantage"].nunique() > 4
    assert table["advantage"].mean() != pytest.approx(0, abs=1e-6)  # of tokens, which are not as many in each


def test_evaluation_judges_by_the_same_figures(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, settings={"per_device_eval_batch_size": 8})
    weights, values = weights_of(trainer.model), weights_of(trainer.critic.model)
    figures = trainer.evaluate(trainer.train_dataset.select(range(4)))
    assert {f"eval_{key}" for key in (OF_BATCH | OF_STEP) - {"critic/grad_norm"}} <= figures.keys()
    assert not moved_since(trainer.model, weights) | moved_since(trainer.critic.model, values)


@pytest.mark.parametrize(("target_kl", "left_out"), [(1e-6, True), (1e3, False)])
def test_epochs_end_where_the_policy_has_gone_too_far(target_kl, left_out, prover, tmp_path):
    """
    In the second of four epochs the policy is too far away, so the other two are skipped; a new batch starts again.
    """
    settings = {"num_iterations": 4, "max_steps": 6, "target_kl": target_kl}
    trainer = ppo_trainer(prover, tmp_path, settings=settings)
    seen = []
    trainer.add_callback(_Watch(trainer, seen))
    trainer.train()
    log = loss_lines(trainer)
    assert [line.get("left_out", 0.0) for line in log] == [0, 0, left_out, left_out, 0, 0]
    moved = [any(not a.equal(b) for a, b in zip(*pair, strict=True)) for pair in itertools.pairwise(seen)]
    assert moved == [True, not left_out, not left_out, True, True]
    assert "accuracy/helpful" in log[4]


class _Watch(TrainerCallback):
    """Records the weights of policy and critic after each step."""

    def __init__(self, trainer, seen):
        self.models = (trainer.model, trainer.critic.model)
        self.seen = seen

    def on_step_end(self, args, state, control, **kwargs):
        self.seen.append([weight for model in self.models for weight in weights_of(model).values()])


def test_one_epoch_keeps_the_log_probabilities_too(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, settings={"num_iterations": 1, "max_steps": 2})
    trainer.train()
    assert all(line["approx_kl"] == pytest.approx(0, abs=1e-6) for line in loss_lines(trainer))
    assert all(line.keys() >= OF_BATCH | OF_STEP for line in loss_lines(trainer))


def test_without_a_kl_there_is_no_reference(prover, tmp_path):
    trainer = ppo_trainer(prover, tmp_path, settings={"beta": 0.0, "max_steps": 2})
    trainer.train()
    assert trainer.ref_model is None
    assert "kl" not in loss_lines(trainer)[0]
    assert "approx_kl" in loss_lines(trainer)[0]


def test_solutions_without_labels_change_no_weight(prover, tmp_path):
    """An unlabelled solution has no reward; if that is so in every row, neither player takes a step."""
    trainer = ppo_trainer(
        prover,
        tmp_path,
        feedback=lambda rows, step: [None] * len(rows),
        settings={"max_steps": 2, "beta": 0.0},
    )
    weights, values = weights_of(trainer.model), weights_of(trainer.critic.model)
    trainer.train()
    assert not moved_since(trainer.model, weights) | moved_since(trainer.critic.model, values)


def test_the_best_answer_of_a_bandit_is_learned(prover, tmp_path):
    """A solution is one word, with reward 1 if it is a number and 0 otherwise; the best policy writes only numbers."""

    def score(problems, solutions):
        return [float(solution.strip().isdigit()) for solution in solutions]

    settings = {
        "reward": "goodhart",
        "beta": 0.0,
        "max_completion_length": 1,
        "per_device_train_batch_size": 64,
        "num_iterations": 4,
        "max_steps": 40,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "cliprange_value": 0.5,
    }
    rows = role_rows(("helpful",), num_problems=160)
    trainer = ppo_trainer(prover, tmp_path, scorer=score, rows=rows, settings=settings)
    trainer.train()
    batches = [line for line in loss_lines(trainer) if "reward" in line]
    assert len(batches) == 10
    assert batches[0]["reward"] < 0.6
    assert min(line["reward"] for line in batches[-3:]) > 0.9
    assert batches[-1]["critic/value"] == pytest.approx(
        batches[-1]["reward"], abs=0.2
    )  # which the critic has seen coming


def test_the_example_of_the_documentation_runs(repository, prover, tmp_path):
    text = (repository / "docs" / "reference" / "prover-trainer.md").read_text(encoding="utf-8")
    (block,) = [
        found for found in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) if "PPO" in found
    ]
    replaced = {"your/prover": prover, '"out"': f'"{tmp_path}"', "max_steps=200": "max_steps=2, use_cpu=True"}
    for old, new in replaced.items():
        assert block.count(old) == 1
        block = block.replace(old, new)
    names = {"scorer": make_scorer(prover), "task": load_task("arithmetic", num_train=20, num_test=1)}
    prompts = PromptBuilder(names["task"])
    names["data"] = Dataset.from_list(
        [{**row, "role": "sneaky", "prompt": prompts.text(row, "sneaky")} for row in names["task"].problems("train")]
    )
    exec(block, names)
    assert loss_lines(names["trainer"])[1]["loss/value"] > 0


def test_an_optimizer_that_does_not_know_the_critic_is_refused(prover, tmp_path):
    model = load_causal_lm(prover)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"`optimizers` .* critic"):
        ppo_trainer(model, tmp_path, optimizers=(optimizer, None))


@pytest.mark.parametrize("structure", ["adapter", "verifier"])
def test_a_resumed_training_equals_an_uninterrupted_one(structure, prover, tmp_path):
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
    assert all("`save_steps` is 1, and a generated batch is trained on for 2 steps" in w for w in warnings)


def test_a_saved_critic_can_start_another_training(prover, tmp_path):
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
    with pytest.raises(ValueError, match=r"checkpoint-2` .*no critic"):
        ppo_trainer(prover, tmp_path).train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))


FIGURES = {
    "loss",
    "loss/policy",
    "loss/value",
    "approx_kl",
    "kl",
    "critic/grad_norm",
    "critic/clip_ratio",
    "critic/value",
    "critic/return",
    "explained_variance",
    "grad_norm",
    "reward",
}
# The others are means over micro-batches, be their tokens many or few, as TRL's own are.
OF_STEPS = FIGURES - {"approx_kl", "kl", "critic/clip_ratio"}


def _check_same(result: dict, expected: dict, figures: set[str] = FIGURES) -> None:
    assert len(result["log"]) == len(expected["log"]) == 4
    for line, other in zip(result["log"], expected["log"], strict=True):
        assert figures & line.keys() == figures & other.keys()
        found, wanted = ({key: log[key] for key in figures & log.keys()} for log in (line, other))
        assert found == pytest.approx(wanted, rel=1e-3, abs=2e-5)
    assert result["sums"] == pytest.approx(expected["sums"], rel=1e-6)


@pytest.fixture(scope="module")
def twofold(prover, tmp_path_factory) -> list[dict]:
    """Results of each of two processes, by structure of the critic."""
    folder = tmp_path_factory.mktemp("twofold")
    run_on_two_processes("written_batches.py", prover, folder)
    return [json.loads((folder / f"process-{index}.json").read_text()) for index in (0, 1)]


@pytest.mark.game
@pytest.mark.parametrize("structure", STRUCTURES)
def test_two_processes_and_micro_batches_make_the_same_steps(structure, twofold, prover, tmp_path):
    whole = train(prover, tmp_path / "whole", structure, per_device=16)
    assert whole["log"][3]["approx_kl"] > 1e-7
    results = [of_process[structure] for of_process in twofold]
    assert [result["num_processes"] for result in results] == [2, 2]
    assert results[0]["sums"] == results[1]["sums"]
    _check_same(results[0], whole)
    if structure == "adapter":
        _check_same(twofold[0]["parts"], whole, OF_STEPS)
    _check_same(train(prover, tmp_path / "parts", structure, per_device=4, accumulation=4), whole, OF_STEPS)
