"""Digests: changed, missing and unreadable files are found and named."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pvg_hf.core.integrity import (
    DIGESTS,
    DamagedFileError,
    check_file,
    find_damaged,
    missing_files,
    read_digests,
    read_json,
    read_json_lines,
    replay_advice,
    write_digests,
)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A finished phase of a run."""
    (tmp_path / "recipe.yaml").touch()
    folder = tmp_path / "prover" / "round-000"
    (folder / "best-helpful").mkdir(parents=True)
    save_file({"weight": torch.arange(64.0)}, folder / "model.safetensors")
    save_file({"weight": torch.arange(64.0)}, folder / "best-helpful" / "model.safetensors")
    (folder / "metrics.jsonl").write_text('{"step": 1}\n')
    (folder / "phase.json").write_text("{}")
    write_digests(folder, without=["phase.json"])
    return folder


def flip(path: Path, place: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_digests_are_those_of_the_files(folder):
    """By hand: `printf '{"step": 1}\\n' | sha256sum`."""
    files = read_digests(folder).files
    assert sorted(files) == ["best-helpful/model.safetensors", "metrics.jsonl", "model.safetensors"]
    assert files["metrics.jsonl"] == "534f980249c76b922b0e8204a6ef6366f7a48aeb89d4971abdaad355be37563d"
    assert list(find_damaged(folder)) == []


def test_equal_files_have_equal_digests(folder, tmp_path):
    before = (folder / DIGESTS).read_bytes()
    write_digests(folder, without=["phase.json"])
    assert (folder / DIGESTS).read_bytes() == before


@pytest.mark.parametrize("name", ["model.safetensors", "best-helpful/model.safetensors", "metrics.jsonl"])
@pytest.mark.parametrize(
    "damage",
    [flip, lambda path: path.write_bytes(b""), lambda path: os.truncate(path, 9)],
    ids=["flipped bit", "empty", "truncated"],
)
def test_a_changed_file_is_found_with_its_phase(name, damage, folder):
    damage(folder / name)
    (found,) = find_damaged(folder)
    assert found.path == folder / name
    assert f"Delete the folder {folder} and continue" in str(found)
    with pytest.raises(DamagedFileError) as caught:
        check_file(folder / name)
    assert caught.value.path == folder / name


def test_a_missing_file_is_reported_as_missing(folder):
    (folder / "best-helpful" / "model.safetensors").unlink()
    assert list(find_damaged(folder)) == []
    assert missing_files(folder) == [folder / "best-helpful" / "model.safetensors"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flip(path, -2),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text("[1]"),
    ],
    ids=["flipped bit", "empty file", "empty mapping", "list"],
)
def test_damaged_digests_are_named(damage, folder):
    damage(folder / DIGESTS)
    (found,) = find_damaged(folder)
    assert found.path == folder / DIGESTS


def test_without_digests_every_content_is_accepted(folder):
    """Whoever changes a file on purpose deletes them."""
    (folder / DIGESTS).unlink()
    (folder / "metrics.jsonl").write_text('{"step": 2}\n')
    assert (list(find_damaged(folder)), missing_files(folder)) == ([], [])
    assert read_json_lines(folder / "metrics.jsonl") == [{"step": 2}]


def test_advice_names_the_folder_of_the_phase(tmp_path):
    (tmp_path / "recipe.yaml").touch()
    for path in ("models", "models/prover/config.json", "pool/base", "pool/base/labels/log.jsonl"):
        phase = "models" if path.startswith("models") else "pool/base"
        (tmp_path / phase).mkdir(parents=True, exist_ok=True)
        (tmp_path / phase / "phase.json").touch()
        assert f"Delete the folder {tmp_path / phase} and continue" in replay_advice(tmp_path / path)
    assert replay_advice(tmp_path / "run.json") == replay_advice(tmp_path.parent / "config.json") == ""


@pytest.mark.parametrize("content", [b'{"a": ', b"\xff\xfe", b"[" * 100_000])
@pytest.mark.parametrize("read", [read_json, read_json_lines])
def test_an_unreadable_file_is_named(read, content, folder):
    path = folder / "more.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="Delete the folder") as caught:
        read(path)
    assert caught.value.path == path
    assert str(folder) in caught.value.remedy


def test_reading_compares_with_the_digest(folder):
    (folder / "metrics.jsonl").write_text('{"step": 2}\n')
    with pytest.raises(DamagedFileError, match="damaged: its bytes"):
        read_json_lines(folder / "metrics.jsonl")


def test_the_error_reaches_other_processes(folder):
    error = DamagedFileError(folder / "a", "is missing", "Do it.")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.path) == (str(error), error.path)
