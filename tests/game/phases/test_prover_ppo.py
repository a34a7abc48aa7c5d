"""Prover phases with a critic."""

import pytest
import torch
from safetensors.torch import load_file

from pvg_hf.core.disk_names import CRITIC_FOLDER
from pvg_hf.core.integrity import read_json_lines
from pvg_hf.models.value_model import load_value_model
from pvg_hf.trainers.ppo.trainer import ProverPPOTrainer
from tests.support.game_runs import differing, prover_steps, whole_and_killed

pytestmark = pytest.mark.game

LORA = {"r": 4}
PPO = {"prover__algorithm": "ppo", "prover__ppo": {"num_iterations": 2, "critic": "verifier"}}
WITH_ADAPTERS = {"prover__algorithm": "ppo", "prover__ppo": {"num_iterations": 2}, "prover__lora": LORA}


def test_a_round_trains_with_a_critic_from_the_verifier(play_phase, beginnings, reference):
    folder = play_phase("prover", 0, **PPO)
    ((trainer, weights),) = beginnings
    assert isinstance(trainer, ProverPPOTrainer)
    assert (trainer.args.num_iterations, trainer.beta) == (2, 0.05)
    assert len(trainer.train_dataset) == 3 * 4  # batches, prompts a batch: two steps are taken on each
    assert any(not torch.equal(weights[name], tensor) for name, tensor in trainer.model.state_dict().items())
    steps = prover_steps(folder)
    assert list(steps) == [1, 2, 3, 4, 5, 6]
    assert all({"prover/loss/value", "prover/approx_kl", "prover/kl"} <= line.keys() for line in steps.values())
    assert ["prover/explained_variance" in line for line in steps.values()] == [True, False] * 3
    assert ["prover/heldout/selection" in line for line in steps.values()] == [False, True] * 3
    critic = folder.prover(0) / CRITIC_FOLDER
    saved, verifier = load_value_model(critic), load_file(folder.verifier(0) / "model.safetensors")
    assert saved.score.weight.any()
    assert saved.num_parameters() == sum(weight.numel() for weight in verifier.values()) + 1  # the head's bias
    assert not list(folder.prover(0).rglob("training_args.bin"))
    play_phase("mint", 0, **PPO)
    play_phase("evaluate", 0, **PPO)
    assert folder.player("prover", 0) == folder.prover(0)
    with pytest.raises(ValueError, match=r"no checkpoint `value_model`.*\['best-helpful', 'last'\]"):
        folder.player("prover", 0, CRITIC_FOLDER.name)


def test_separate_roles_have_a_critic_each(play_phase, beginnings):
    folder = play_phase("prover", 0, **WITH_ADAPTERS, prover__roles="separate")
    critics = [
        load_file(folder.prover(0) / role / CRITIC_FOLDER / "adapter_model.safetensors")
        for role in ("helpful", "sneaky")
    ]
    assert all(any("score" in name for name in critic) for critic in critics)
    assert any(not torch.equal(critics[0][name], critics[1][name]) for name in critics[0])
    for trainer, _ in beginnings:
        frozen = {weight.data_ptr() for weight in trainer.model.parameters() if not weight.requires_grad}
        own = [w for name, w in trainer.critic.model.named_parameters() if not w.requires_grad and "score" not in name]
        assert {weight.data_ptr() for weight in own} <= frozen
    play_phase("mint", 0, **WITH_ADAPTERS, prover__roles="separate")


@pytest.mark.parametrize(
    "changes",
    [pytest.param(PPO, id="verifier"), pytest.param(WITH_ADAPTERS, id="adapter")],
)
def test_killed_in_a_step_it_resumes_to_the_same_bytes(changes, tmp_path, make_recipe, reference):
    file = r"\.round-000\.partial/checkpoints/checkpoint-4/trainer_state"
    runs = whole_and_killed(reference, tmp_path, make_recipe, changes, file)
    assert differing(*runs) == []
    assert any("critic" in path.parts for path in runs[0].prover(0).rglob("*.safetensors"))
    continued = [event["checkpoint"] for event in read_json_lines(runs[1].events) if event["event"] == "continued"]
    assert continued == ["checkpoint-2"]
