"""Lines that outlast a crash."""

import pytest

from pvg_hf.core.files import Journal


@pytest.fixture
def journal(tmp_path) -> Journal:
    return Journal(tmp_path / "answers.jsonl")


def test_lines_come_back_in_order(journal):
    assert journal.read() == []
    for number in range(3):
        journal.append({"number": number, "text": "ä\u2028\n"})
    assert [row["number"] for row in journal.read()] == [0, 1, 2]
    assert journal.read()[0]["text"] == "ä\u2028\n"


@pytest.mark.parametrize("torn", [b'{"number": 1, "te', b"\xff\xfe", b"17"])
def test_a_line_that_was_cut_short_costs_no_other(journal, torn):
    journal.append({"number": 0})
    with journal.path.open("ab") as file:
        file.write(torn)
    journal.append({"number": 2})
    assert [row["number"] for row in journal.read()] == [0, 2]


def test_the_lock_is_held_while_a_line_is_written(tmp_path):
    held = []

    class Lock:
        def __enter__(self):
            held.append((tmp_path / "answers.jsonl").exists())

        def __exit__(self, *_):
            held.append((tmp_path / "answers.jsonl").read_text())

    Journal(tmp_path / "answers.jsonl", Lock()).append({"a": 1})
    assert held == [False, '{"a": 1}\n']


def test_lines_are_put_in_place_of_others(tmp_path):
    """Also of one that a crash cut short; an equal file is left alone."""
    journal = Journal(tmp_path / "lines.jsonl")
    journal.append({"n": 1})
    journal.append({"n": 2})
    with journal.path.open("ab") as file:
        file.write(b'{"n": 3')
    journal.rewrite([{"n": 2}, {"n": 1}])
    assert journal.path.read_text() == '{"n": 2}\n{"n": 1}\n'
    written = journal.path.stat().st_mtime_ns
    journal.rewrite(journal.read())
    assert journal.path.stat().st_mtime_ns == written
