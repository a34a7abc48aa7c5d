"""Tests of the tiny checkpoint and report that are written before the first phase."""

import errno
import os

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.game import first_writes
from pvg_hf.game.first_writes import try_checkpoint, try_report
from pvg_hf.game.limits import DiskFullError
from pvg_hf.run.layout import RunFolder


def test_a_trial_leaves_nothing_behind(tmp_path):
    try_checkpoint(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_gives_back_other_bytes_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(first_writes, "load_file", lambda file: {"weight": first_writes.torch.zeros(4)})
    with pytest.raises(ValueError, match="output_dir"):
        try_checkpoint(tmp_path)


def test_a_disk_that_takes_no_weights_ends_the_game_before_its_first_phase(game, tmp_path, monkeypatch):
    def refuse(tensors, file):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(file))

    monkeypatch.setattr(first_writes, "save_file", refuse)
    with pytest.raises(DiskFullError):
        play(load_recipe(game()))
    assert not (tmp_path / "game").exists()


def test_the_report_is_tried_without_being_written(game, reference, caplog, monkeypatch):
    recipe = load_recipe(game(logging__report=True))
    RunFolder.of(recipe).write_recipe(recipe)
    try_report(recipe, RunFolder.of(recipe))
    assert caplog.text == ""
    assert not RunFolder.of(recipe).report.exists()

    monkeypatch.setattr(first_writes, "render_page", lambda run, images, further: {}["a defect"])
    try_report(recipe, RunFolder.of(recipe))
    assert "a defect" in caplog.text
    assert "Traceback" in caplog.text
