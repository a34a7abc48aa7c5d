"""A game reports to real trackers, whose files are then read with their own tools."""

import os
import subprocess
import sys

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.game.context import GameCallback
from tests.support.game_runs import branch_off

pytestmark = pytest.mark.game

pytest.importorskip("tensorboard")


def read_tensorboard(folder, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


class Crash(GameCallback):
    def on_phase_end(self, context):
        raise RuntimeError("crash")


def test_one_run_over_the_whole_game_on_its_step_axis(tmp_path, game, reference):
    folder = branch_off(reference, tmp_path, "round-001/verifier")
    recipe = load_recipe(game(logging__report_to=["tensorboard"]))
    with pytest.raises(RuntimeError, match="crash"):
        play(recipe, callbacks=[Crash()])
    play(recipe)
    wanted = {"verifier/loss": "verifier", "prover/loss": "prover", "verifier/heldout_pair_accuracy": "verifier"}
    for tag, phase in wanted.items():
        of_round = [line for line in read_json_lines(folder.metrics) if line["round"] == 1 and line["phase"] == phase]
        expected = [(line["game_step"], pytest.approx(line[tag])) for line in of_round if tag in line]
        assert expected
        assert read_tensorboard(folder.root, tag) == expected
    evaluated = [line for line in read_json_lines(folder.metrics) if line["phase"] == "evaluate"][-1]
    assert (28, pytest.approx(evaluated["round/accuracy/helpful"])) in read_tensorboard(
        folder.root, "round/accuracy/helpful"
    )


@pytest.mark.nightly
@pytest.mark.parametrize("tracker", ["trackio", "wandb"])
def test_runs_can_be_tracked_offline(tmp_path, game, reference, tracker):
    """A separate process has the environment that keeps the tracker off the network."""
    pytest.importorskip(tracker)
    folder = branch_off(reference, tmp_path, "round-001/evaluate")
    offline = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path / "trackio")}
    code = f"from pvg_hf import load_recipe, play; play(load_recipe({game(logging__report_to=[tracker])!r}))"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **offline}, timeout=200)
    run_id = read_json(folder.root / "tracking.json")["id"]
    if tracker == "wandb":
        assert list((folder.root / "wandb").rglob(f"run-{run_id}.wandb"))
    else:
        assert list((tmp_path / "trackio").rglob("pvg_hf*"))
