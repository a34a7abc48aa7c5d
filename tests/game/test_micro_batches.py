"""Micro-batches of a game on a GPU, with this machine's processor in its place."""

import pytest
import torch

from pvg_hf.core.integrity import read_json_lines
from pvg_hf.game.limits import OutOfMemory
from pvg_hf.models.hardware import Hardware
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

pytestmark = pytest.mark.game


@pytest.fixture
def fitting(monkeypatch):
    """Lets memory run out after the first step, unless a micro-batch has at most this many pairs."""
    monkeypatch.setattr(Hardware, "has_gpu", True)
    step = NoisyRewardTrainer.training_step

    def make(most: int) -> None:
        def train(trainer, model, inputs, *args, **kwargs):
            if trainer.state.global_step == 1 and len(inputs["row_index"]) > most:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return step(trainer, model, inputs, *args, **kwargs)

        monkeypatch.setattr(NoisyRewardTrainer, "training_step", train)

    return make


def sizes_of(folder, event: str) -> list[int]:
    return [line["micro_batch_size"] for line in folder.read_events()[0] if line["event"] == event]


def test_a_phase_goes_on_with_half_the_micro_batch_if_memory_runs_out(play_phase, beginnings, fitting, caplog):
    fitting(2)
    caplog.set_level("INFO")
    folder = play_phase("verifier", 0, verifier__pairs_per_step=8, verifier__max_steps=3, verifier__save_steps=1)
    assert sizes_of(folder, "micro_batch") == [8, 4, 2]
    assert sizes_of(folder, "out_of_memory") == [8, 4]
    assert [trainer.args.per_device_train_batch_size for trainer, _ in beginnings] == [8, 4, 2]
    assert "Micro-batches of 8 do not fit in memory; the phase continues with 4." in caplog.text
    steps = [line["step"] for line in read_json_lines(folder.metrics) if line["phase"] == "verifier" and line["step"]]
    assert steps == [1, 2, 3]


def test_a_process_that_cannot_train_twice_ends_and_its_next_start_halves(
    play_phase, beginnings, fitting, monkeypatch
):
    """vLLM keeps its memory until the process ends, so that no smaller micro-batch is tried."""
    fitting(4)
    monkeypatch.setattr("pvg_hf.game.play._why_one_process_each", lambda recipe: "vLLM")
    settings = {"verifier__pairs_per_step": 8, "verifier__max_steps": 3, "verifier__save_steps": 1}
    with pytest.raises(OutOfMemory):
        play_phase("verifier", 0, **settings)
    assert [trainer.args.per_device_train_batch_size for trainer, _ in beginnings] == [8]
    play_phase("verifier", 0, **settings)
    assert [trainer.args.per_device_train_batch_size for trainer, _ in beginnings] == [8, 4]


def test_an_explicit_micro_batch_is_not_halved(play_phase, fitting):
    fitting(2)
    with pytest.raises(OutOfMemory, match=r"`verifier\.micro_batch_size`"):
        play_phase("verifier", 0, verifier__pairs_per_step=8, verifier__micro_batch_size=4)


def test_a_penalty_over_the_step_is_not_divided(play_phase, fitting):
    fitting(2)
    settings = {"verifier__invariance": {"method": "vrex"}, "verifier__pairs_per_step": 8}
    with pytest.raises(OutOfMemory, match=r"`verifier\.micro_batch_size`"):
        play_phase("verifier", 1, **settings)


def test_a_phase_that_fits_with_no_micro_batch_ends_the_game(play_phase, fitting):
    fitting(0)
    with pytest.raises(OutOfMemory, match=r"`verifier\.micro_batch_size`"):
        play_phase("verifier", 0, verifier__pairs_per_step=2)
