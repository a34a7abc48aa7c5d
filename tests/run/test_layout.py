import logging

import pytest

from pvg_hf.core.files import write_json, write_text
from pvg_hf.core.integrity import read_json, read_json_lines
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.phase_record import staged

ONE, TWO = b'{"event": "sampling"}\n', b'{"event": "continued"}\n'


def test_results_appear_at_once_when_the_block_ends(tmp_path):
    target = tmp_path / "phase"
    with staged(target, is_main=True) as partial:
        (partial / "file").write_text("x")
        assert not target.exists()
    assert (target / "file").read_text() == "x"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failure_leaves_no_results_and_keeps_partial_files_for_the_next_start(tmp_path):
    target = tmp_path / "phase"
    with pytest.raises(FileNotFoundError), staged(target, is_main=True) as partial:
        (partial / "half").write_text((tmp_path / "missing").read_text())
    assert not target.exists()
    (tmp_path / ".phase.partial" / "checkpoint").write_text("x")
    with staged(target, is_main=True) as partial:
        assert (partial / "checkpoint").read_text() == "x"


def test_other_processes_write_nothing(tmp_path):
    with staged(tmp_path / "phase", is_main=False) as partial:
        assert not partial.exists()
    assert list(tmp_path.iterdir()) == []


def test_file_is_replaced_whole(tmp_path):
    path = tmp_path / "state.json"
    write_json(path, {"b": 1, "a": 2})
    assert path.read_text() == '{\n  "a": 2,\n  "b": 1\n}\n'
    write_text(path, "{}")
    assert read_json(path) == {}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b'{"a": ', b"\xff\xfe", b""])
def test_damaged_json_is_named_with_the_remedy(content, tmp_path):
    (tmp_path / "recipe.yaml").touch()
    path = tmp_path / "verifier" / "round-000" / "pairs.json"
    path.parent.mkdir(parents=True)
    (path.parent / "phase.json").touch()
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"pairs\.json is damaged .*folder"):
        read_json(path)


def test_a_file_outside_the_phases_has_another_remedy(tmp_path):
    (tmp_path / "tracking.json").write_text("{")
    with pytest.raises(ValueError, match=r"tracking\.json .*\)\. Delete it\.$"):
        read_json(tmp_path / "tracking.json", remedy="Delete it.")


def test_missing_file_is_named_with_the_remedy(tmp_path):
    with pytest.raises(ValueError, match=r"metrics\.jsonl is missing"):
        read_json_lines(tmp_path / "metrics.jsonl")


def test_events_are_appended_with_the_time_and_found_again(tmp_path):
    folder = RunFolder(tmp_path)
    assert not folder.has_event("checks")
    folder.log_event("checks", kind="sneaky_collapse", round=1)
    folder.log_event("checks", kind="goodharting", round=1)
    assert [line["kind"] for line in read_json_lines(folder.events)] == ["sneaky_collapse", "goodharting"]
    assert all(line["time"] > 1.7e9 for line in read_json_lines(folder.events))
    assert folder.has_event("checks", kind="goodharting")
    assert not folder.has_event("checks", kind="goodharting", round=2)


@pytest.mark.parametrize(
    ("before", "after", "num_damaged"),
    [
        (ONE + b'{"event', ONE, 0),  # a crash, which needs no message
        (ONE + TWO, ONE + TWO, 0),
        (b"{", b"", 0),
        (ONE + b'{"event": "al\n' + TWO, ONE + TWO, 1),
        (b"\xff\xfe\n[1]\n{}\n" + ONE + b"{", ONE, 3),
    ],
)
def test_lines_that_cannot_be_read_are_dropped(before, after, num_damaged, tmp_path, caplog):
    folder = RunFolder(tmp_path)
    folder.mend_events()
    folder.events.write_bytes(before)
    with caplog.at_level(logging.WARNING):
        folder.mend_events()
    assert folder.events.read_bytes() == after
    assert [record.args[0] for record in caplog.records] == ([num_damaged] if num_damaged else [])


@pytest.mark.parametrize(("text", "known"), [("{", {}), ("[1, 2]", {}), (None, {}), ('{"seed": 1}', {"seed": 1})])
def test_an_unreadable_environment_file_is_ignored(text, known, tmp_path):
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    assert RunFolder(tmp_path).read_environment() == known


def _make_prover(root, *checkpoints):
    for checkpoint in checkpoints:
        folder = root / "prover" / "round-000" / checkpoint
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "adapter_config.json").write_text("{}")


@pytest.mark.parametrize(
    ("checkpoints", "checkpoint", "found"),
    [
        (["."], None, "."),
        ([".", "best-helpful"], None, "."),
        (["helpful", "sneaky"], None, "helpful"),
        (["helpful", "sneaky", "helpful/best-helpful"], None, "helpful"),
        (["helpful", "sneaky"], "sneaky", "sneaky"),
    ],
    ids=["shared", "shared with the best", "separate", "separate with the best", "named"],
)
def test_a_prover_is_found_without_naming_its_checkpoint(checkpoints, checkpoint, found, tmp_path):
    _make_prover(tmp_path, *checkpoints)
    place = tmp_path / "prover" / "round-000"
    assert RunFolder(tmp_path).player("prover", checkpoint=checkpoint) == place / found


def test_an_absent_checkpoint_is_an_error_that_lists_the_others(tmp_path):
    _make_prover(tmp_path, "helpful", "sneaky")
    with pytest.raises(ValueError, match=r"`last`.*helpful.*sneaky"):
        RunFolder(tmp_path).player("prover", checkpoint="last")
