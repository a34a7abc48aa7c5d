"""Files of lines that survive a crash."""

from threading import Lock, Thread

import pytest

from pvg_hf.core.files import Journal


@pytest.fixture
def journal(tmp_path) -> Journal:
    return Journal(tmp_path / "answers.jsonl")


def test_lines_are_read_in_order(journal):
    assert journal.read() == []
    journal.append({"number": 0, "text": "ä\u2028\n"})
    journal.append(*({"number": number, "text": ""} for number in (1, 2)))
    assert [row["number"] for row in journal.read()] == [0, 1, 2]
    assert journal.read()[0]["text"] == "ä\u2028\n"


@pytest.mark.parametrize("torn", [b'{"number": 1, "te', b"\xff\xfe", b"17"])
def test_a_truncated_line_does_not_affect_the_others(journal, torn):
    journal.append({"number": 0})
    with journal.path.open("ab") as file:
        file.write(torn)
    journal.append({"number": 2})
    assert [row["number"] for row in journal.read()] == [0, 2]


def test_the_lock_is_held_while_a_line_is_written(tmp_path):
    held = []

    class NotingLock:
        def __enter__(self):
            held.append((tmp_path / "answers.jsonl").exists())

        def __exit__(self, *_):
            held.append((tmp_path / "answers.jsonl").read_text())

    Journal(tmp_path / "answers.jsonl", NotingLock()).append({"a": 1})
    assert held == [False, '{"a": 1}\n']


def test_a_file_of_lines_is_replaced(tmp_path):
    """This includes a line that a crash cut short; an equal file is not written again."""
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


def test_unreadable_and_unwanted_lines_are_dropped_and_the_others_keep_their_bytes(tmp_path, caplog):
    journal = Journal(tmp_path / "lines.jsonl")
    journal.path.write_bytes(b'{"n":  1}\nscrawl\n{"n": 2}\n{"n": 3}\n' + b"[" * 100_000 + b'\n{"n": 4')
    journal.keep(lambda row: row["n"] != 2)
    assert journal.path.read_bytes() == b'{"n":  1}\n{"n": 3}\n'
    assert "Dropping 3 unreadable line(s)" in caplog.text


def test_a_line_that_is_appended_while_others_are_dropped_is_kept(tmp_path):
    journal = Journal(tmp_path / "lines.jsonl", Lock())
    for n in range(3):
        journal.append({"n": n})
    writer = Thread(target=journal.append, args=[{"n": 3}])

    def is_odd(row) -> bool:
        if writer.ident is None:
            writer.start()
            writer.join(0.2)  # it must wait for the lock
        return row["n"] % 2 == 1

    journal.keep(is_odd)
    writer.join()
    assert [row["n"] for row in journal.read()] == [1, 3]
