"""Digests and seals: changed files are found, and unchanged ones are not read again."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pvg_hf.core import integrity
from pvg_hf.core.integrity import (
    DIGESTS,
    DamagedFileError,
    check_file,
    check_folder,
    find_damaged,
    is_sealed_text_whole,
    log_line,
    missing_files,
    parse_log_line,
    read_digests,
    read_json,
    read_json_lines,
    seal,
    seal_text,
    unseal,
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
    files = read_digests(folder)["files"]
    assert sorted(files) == ["best-helpful/model.safetensors", "metrics.jsonl", "model.safetensors"]
    assert files["metrics.jsonl"]["size"] == 12
    assert files["metrics.jsonl"]["sha256"] == "534f980249c76b922b0e8204a6ef6366f7a48aeb89d4971abdaad355be37563d"
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
    assert list(find_damaged(folder, names=["no such file"])) == []


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ('{"base_model_name_or_path": "/elsewhere", "r": 8}', True),
        ('{"base_model_name_or_path": "base", "r": 9}', False),
        ('{"base_model_name_or_path": "base", "r', False),
        ("[]", False),
        ("", False),
    ],
)
def test_the_path_of_an_adapters_base_may_change(text, is_whole, folder):
    """Messages about a run that was moved advise to change it."""
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "base", "r": 8}')
    write_digests(folder)
    (folder / "adapter_config.json").write_text(text)
    assert (list(find_damaged(folder)) == []) is is_whole


def test_a_missing_file_is_reported_as_missing(folder):
    (folder / "best-helpful" / "model.safetensors").unlink()
    assert list(find_damaged(folder)) == []
    assert missing_files(folder) == [folder / "best-helpful" / "model.safetensors"]
    check_folder(folder)
    with pytest.raises(DamagedFileError, match=r"model\.safetensors .*missing"):
        check_folder(folder / "best-helpful")


@pytest.mark.parametrize(
    "damage",
    [flip, lambda path: flip(path, 60), lambda path: path.write_bytes(b""), lambda path: path.write_text("{}")],
    ids=["flipped bit", "another flipped bit", "empty file", "empty mapping"],
)
def test_damaged_digests_are_named(damage, folder):
    damage(folder / DIGESTS)
    (found,) = find_damaged(folder)
    assert found.path == folder / DIGESTS


def test_without_digests_only_the_format_is_checked(folder):
    (folder / DIGESTS).unlink()
    flip(folder / "model.safetensors")  # the last weight
    assert (list(find_damaged(folder)), missing_files(folder), check_file(folder / "metrics.jsonl")) == ([], [], False)
    os.truncate(folder / "best-helpful" / "model.safetensors", 100)
    (folder / "metrics.jsonl").write_text("{")
    assert [found.path.name for found in find_damaged(folder)] == ["model.safetensors", "metrics.jsonl"]
    assert all(str(folder) in found.remedy for found in find_damaged(folder))


def test_a_damaged_model_outside_a_run_must_be_replaced(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DamagedFileError, match=r"config\.json is damaged .* copy"):
        check_folder(tmp_path)


def read_and_note(monkeypatch) -> list[str]:
    """Record the names of the files whose bytes are read from now on."""
    read: list[str] = []
    digest = integrity.hashlib.file_digest

    def file_digest(file, name):
        read.append(Path(file.name).name)
        return digest(file, name)

    monkeypatch.setattr(integrity.hashlib, "file_digest", file_digest)
    return read


def test_a_file_is_not_read_again_until_it_changes(folder, monkeypatch):
    monkeypatch.setattr(integrity, "_SETTLED_SECONDS", -1.0)  # files that are just written are taken for settled
    read = read_and_note(monkeypatch)
    assert list(find_damaged(folder)) == []
    first = list(read)
    assert list(find_damaged(folder)) == []
    assert (len(first), read) == (3, first)
    flip(folder / "metrics.jsonl")
    assert len(list(find_damaged(folder))) == 1
    assert read == [*first, "metrics.jsonl"]


def test_a_file_that_was_just_written_is_read_again(folder, monkeypatch):
    """A second change within the resolution of its time stamp would not be seen."""
    monkeypatch.setattr(integrity, "_SETTLED_SECONDS", 3600.0)
    read = read_and_note(monkeypatch)
    list(find_damaged(folder))
    list(find_damaged(folder))
    assert len(read) == 6


def test_verified_files_are_remembered_by_the_next_process(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(integrity, "_SETTLED_SECONDS", -1.0)
    monkeypatch.setattr(integrity, "LARGE", 100)  # bytes: the weights
    monkeypatch.setattr(integrity.constants, "HF_HOME", str(tmp_path / "home"))
    list(find_damaged(folder))
    monkeypatch.setattr(integrity, "_known", {})  # as in another process
    read = read_and_note(monkeypatch)
    assert list(find_damaged(folder)) == []
    assert read == ["metrics.jsonl"]
    flip(folder / "model.safetensors")
    assert [found.path.name for found in find_damaged(folder)] == ["model.safetensors"]
    (notes,) = (tmp_path / "home").rglob("*.json")
    notes.write_text("[1]")
    monkeypatch.setattr(integrity, "_known", {})
    assert [found.path.name for found in find_damaged(folder)] == ["model.safetensors"]


def test_sealed_values_are_read_back(tmp_path):
    sealed = seal({"seconds": 1.5, "summary": "ü"})
    assert unseal(tmp_path, json.loads(json.dumps(sealed))) == {"seconds": 1.5, "summary": "ü"}
    assert unseal(tmp_path, {"seconds": 2.5}) == {"seconds": 2.5}  # of an older version
    with pytest.raises(DamagedFileError, match="damaged: its values"):
        unseal(tmp_path, {**sealed, "seconds": 2.5})


@pytest.mark.parametrize(
    ("change", "is_whole"),
    [
        (lambda text: text, True),
        (lambda text: text.partition("\n")[2], True),  # of an older version
        (lambda text: text.replace("seed: 0", "seed: 1"), False),
        (lambda text: text[: text.index("seed")], False),
        (lambda text: text.replace("\n", "", 1), False),
        (lambda text: "", False),
        (lambda text: "\n", False),
    ],
    ids=["unchanged", "without a seal", "changed", "truncated", "joined lines", "empty", "one empty line"],
)
def test_a_sealed_text_shows_whether_it_is_whole(change, is_whole):
    assert is_sealed_text_whole(change(seal_text("name: game\nseed: 0\n"))) is is_whole


def test_lines_of_the_event_log_are_verified():
    line = log_line({"event": "alert", "kind": "goodharting", "round": 1})
    assert parse_log_line(line.encode()) == {"event": "alert", "kind": "goodharting", "round": 1}
    assert parse_log_line(line.replace("goodh", "goodi").encode()) is None
    assert parse_log_line(b'{"event": "alert"}') == {"event": "alert"}  # of an older version
    assert [parse_log_line(text) for text in (b"", b"\xff", b"[1]", b'{"a": 1}', b"[" * 100_000)] == [None] * 5


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
