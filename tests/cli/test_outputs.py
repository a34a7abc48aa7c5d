"""Outputs that cannot be written are refused before the work, and every error of the system is one line."""

from pathlib import Path

import pytest

from pvg_hf.cli.main import main
from pvg_hf.cli.results import check_output

OUTPUTS = {
    "score": ["score", "no-such-verifier", "answers.jsonl", "--output", "OUTPUT"],
    "choose": ["choose", "no-such-verifier", "answers.jsonl", "--output", "OUTPUT"],
    "label": ["label", "proofs.jsonl", "--verifier", "no-such-verifier", "--output", "OUTPUT"],
    "train": ["train", "verifier", "pairs.jsonl", "--model", "arithmetic", "--output", "OUTPUT"],
    "export": ["export", "no-such-run", "--output", "OUTPUT"],
    "pull": ["pull", "ana/run", "--output-dir", "OUTPUT"],
}


@pytest.mark.parametrize("words", OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_below_a_file_is_refused_before_anything_else(words, tmp_path, capsys):
    (tmp_path / "file").touch()
    output = tmp_path / "file" / "output"
    assert main([word.replace("OUTPUT", str(output)) for word in words]) == 2
    assert f"error: `{output}` cannot be written: {tmp_path / 'file'}: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "is_folder", "message"),
    [
        ("folder", False, "is a folder"),
        ("file", True, "is not a folder"),
        ("/proc/output", False, "cannot be written: /proc: "),
        ("/proc/output", True, "cannot be written: /proc: "),
    ],
)
def test_what_cannot_take_an_output_is_named(name, is_folder, message, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=message):
        check_output(tmp_path / name, is_folder=is_folder)


def test_an_output_that_can_be_written_is_not_created(tmp_path):
    (tmp_path / "file").touch()
    for path in (None, tmp_path / "new" / "file", tmp_path / "file"):
        check_output(path)
    check_output(tmp_path / "new" / "folder", is_folder=True)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_an_error_of_the_system_is_one_line(tmp_path, monkeypatch, capsys):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", str(tmp_path / "my.yaml"))

    monkeypatch.setattr(Path, "open", refuse)
    assert main(["recipes", "copy", "quickstart", str(tmp_path / "my.yaml")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'my.yaml'}: Permission denied.\n"


def test_ctrl_c_before_a_command_listens_for_it_ends_without_a_traceback(monkeypatch, capsys):
    def interrupt(words):
        raise KeyboardInterrupt

    monkeypatch.setattr("pvg_hf.cli.playing.play", interrupt)
    assert main(["play", "demo"]) == 130
    assert capsys.readouterr().err == "Stopped before anything was done.\n"
