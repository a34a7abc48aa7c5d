"""A full disk, simulated by the kernel's limit on the size of a file."""

import errno
import os
import sys

import pytest
from safetensors import SafetensorError

from pvg_hf import load_recipe, play
from pvg_hf.game.limits import DiskFullError, naming_full_disk
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import bytes_of, check_same_so_far, copy_until, play_in_process

ENDING = "All finished phases are kept. Free some space, then resume the run with the same command."


@pytest.mark.game
@pytest.mark.parametrize(
    ("phase", "place", "share_of_model"),
    [
        ("mint", "pool/.round-000.partial", 0.01),  # Parquet, by pyarrow
        ("verifier", "verifier/.round-000.partial/checkpoints", 0.5),  # weights, by safetensors
        ("prover", "prover/.round-000.partial/checkpoints/checkpoint-4", 1.5),  # an optimiser's state, by torch
    ],
)
def test_full_disk_is_one_clear_error_and_loses_nothing(
    phase, place, share_of_model, tmp_path, make_recipe, player, reference
):
    folder = copy_until(reference, tmp_path, f"round-000/{phase}")
    before = finished_files(folder)
    recipe, log = make_recipe(tmp_path), tmp_path / "log.txt"
    order = {
        "recipe": recipe,
        "max_file_size": int(share_of_model * (player / "model.safetensors").stat().st_size),
        "moment": {"event": "os.mkdir", "pattern": rf"{place}'"},
    }
    assert play_in_process(order, log) == 1
    error = log.read_text()[log.read_text().index("DiskFullError: ") :]
    assert error.startswith(f"DiskFullError: The disk is full ({folder.root}, or the folder for temporary")
    assert error.rstrip().endswith(ENDING)
    assert finished_files(folder) == before

    play(load_recipe(recipe), phase=phase, round_index=0)
    check_same_so_far(folder, reference)


@pytest.mark.game
@pytest.mark.parametrize(
    ("phase", "call", "checkpoint"),
    [
        ("verifier", "verifier_quality.py:best_separation", "checkpoint-8"),
        ("prover", "labels.py:summarize_calls", "checkpoint-6"),
    ],
)
def test_an_error_after_a_training_costs_no_training(phase, call, checkpoint, tmp_path, make_recipe, reference):
    folder = copy_until(reference, tmp_path, f"round-000/{phase}")
    recipe, log = make_recipe(tmp_path), tmp_path / "log.txt"
    order = {"recipe": recipe, "max_file_size": 10, "moment": {"event": "call", "pattern": call}}
    assert play_in_process(order, log) == 1
    assert "DiskFullError" in log.read_text()
    play(load_recipe(recipe), phase=phase, round_index=0)
    check_same_so_far(folder, reference)
    events = folder.read_events()[0]
    assert [event["checkpoint"] for event in events if event["event"] == "continued"] == [checkpoint]


@pytest.mark.parametrize("file", ["recipe.yaml", "run.json", "metrics.jsonl"])
def test_disk_that_is_full_at_the_start_is_the_same_error(file, tmp_path, make_recipe, reference):
    folder = copy_until(reference, tmp_path, "round-001/evaluate")
    before, log = finished_files(folder), tmp_path / "log.txt"
    moment = {"event": "open", "pattern": rf"game/\.{file}\.partial'"}
    assert play_in_process({"recipe": make_recipe(tmp_path), "max_file_size": 10, "moment": moment}, log) == 1
    assert "DiskFullError: The disk is full" in log.read_text()
    assert log.read_text().rstrip().endswith(ENDING)
    assert finished_files(folder) == before


def test_error_in_a_folder_that_is_not_made_yet_passes_unchanged(tmp_path):
    with pytest.raises(PermissionError), naming_full_disk(tmp_path / "not" / "made"):
        raise PermissionError(13, "Permission denied")


def finished_files(folder: RunFolder) -> dict[str, bytes]:
    return {
        name: content
        for name, content in bytes_of(folder).items()
        if ".partial/" not in name and name != "metrics.jsonl"
    }


def test_other_errors_pass_unchanged(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"), naming_full_disk(tmp_path):
        (tmp_path / "missing").read_text()
    with pytest.raises(RuntimeError, match="something else"), naming_full_disk(tmp_path):
        raise RuntimeError("something else")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_an_unwritable_folder_is_distinguished_from_a_full_disk(number, tmp_path):
    """A read-only mount, simulated, since the tests may run as a user who may write anywhere."""
    for error in (
        OSError(number, os.strerror(number), str(tmp_path / "runs")),
        OSError(number, os.strerror(number), str(tmp_path / "runs" / "game" / "state.json")),
        SafetensorError(f"Error while serializing: I/O error: {os.strerror(number)} (os error {number})"),
    ):
        with (
            pytest.raises(ValueError, match="cannot be written") as caught,
            naming_full_disk(tmp_path / "runs" / "game"),
        ):
            raise error
        assert os.strerror(number) in str(caught.value)


def test_a_permission_error_outside_the_folder_passes_unchanged(tmp_path):
    with pytest.raises(PermissionError), naming_full_disk(tmp_path / "runs"):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "model"))


@pytest.mark.skipif(sys.platform != "linux", reason="has neither /proc nor /dev/null")
@pytest.mark.parametrize("output_dir", ["/dev/null", "/proc"])
def test_place_where_no_folder_can_be_made_is_named(output_dir, game):
    with pytest.raises(ValueError, match=rf"{output_dir}\b.* (is not|cannot be) "):
        play(load_recipe({**game(), "output_dir": output_dir}))


def test_is_an_error_of_the_system():
    assert issubclass(DiskFullError, OSError)
