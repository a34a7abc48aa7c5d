"""The LiveCodeBench task, on rows in the dataset's format."""

import base64
import json
import pickle
import zlib

import pyarrow as pa
import pytest
from pyarrow import parquet

from pvg_hf import load_task
from pvg_hf.experimental.programs.sandbox.backends import make_backends
from tests.support.program_rows import write_jsonl

SUM = "print(sum(map(int, input().split())))"
LONGEST = "class Solution:\n    def longest(self, words: List[str], least: int) -> int:\n        return max((len(w) for w in words if len(w) >= least), default=-1)"


def packed(value) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def contest_tests(pairs, testtype="stdin") -> str:
    return json.dumps([{"input": given, "output": expected, "testtype": testtype} for given, expected in pairs])


def row(question_id, content, public, private, *, metadata="{}", starter_code="", difficulty="easy"):
    fields = {"question_id": question_id, "question_title": "t", "question_content": content, "platform": "p"}
    dated = {"contest_id": "c", "contest_date": "2024-05-01T00:00:00", "difficulty": difficulty}
    tests = {"public_test_cases": public, "private_test_cases": private, "metadata": metadata}
    return {**fields, **dated, **tests, "starter_code": starter_code}


STDIN = row(
    "1", "Add the numbers.", contest_tests([("1 2\n", "3\n")]), packed(contest_tests([("4 5\n", "9"), ("0\n", "0")]))
)
METHOD = row(
    "2",
    "Find the length of the longest word that has at least so many letters.",
    contest_tests([('["a", "bcd"]\n1', "3")], "functional"),
    contest_tests([('["a"]\n2', "-1"), ("[]\n0", "-1")], "functional"),  # not packed
    metadata='{"func_name": "longest"}',
    starter_code="class Solution:\n    def longest(self, words: List[str], least: int) -> int:\n        ",
    difficulty="hard",
)
ROWS = [STDIN, METHOD]


@pytest.fixture(autouse=True)
def prepared_in(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def test_problems_are_read_from_parquet(tmp_path):
    parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "test-00000-of-00001.parquet")
    task = load_task("livecodebench", path=str(tmp_path), sandbox="none")
    stdin, method = task.problems("train")
    assert task.problems("test") is None
    assert stdin == {
        "problem_id": "livecodebench-train-1",
        "problem": "Add the numbers.\n\nThe program reads stdin and writes to stdout.",
        "reference": "",
        "difficulty": 1,
        "contest_date": "2024-05-01",
    }
    assert method["problem"].endswith(f"Begin with:\n{METHOD['starter_code'].strip()}")
    tests = task.program_tests(stdin)
    assert [(case.stdin, case.expected) for case in (*tests.visible, *tests.hidden)] == [
        ("1 2\n", "3\n"),
        ("4 5\n", "9"),
        ("0\n", "0"),
    ]
    assert task.grade(stdin, SUM).correct
    assert task.grade(method, LONGEST).correct
    wrong = task.grade(stdin, "print(3)")
    assert (wrong.correct, wrong.certified, wrong.test_pass_rate) == (
        False,
        False,
        1.0,
    )  # the only witness is the test


def test_with_references_wrong_programs_are_certified(tmp_path):
    folder = write_jsonl(tmp_path / "test.jsonl", ROWS)
    write_jsonl(
        tmp_path / "references" / "solved.jsonl", [{"question_id": "1", "code": code} for code in ("print(3)", SUM)]
    )
    file = str(tmp_path / "references" / "solved.jsonl")
    task = load_task("livecodebench", path=folder, references=file, sandbox="none")
    (stdin,) = task.problems("train")
    assert stdin["reference"] == SUM
    assert task.left_out("train") == {"2": "no solution is a valid program"}
    wrong = task.grade(stdin, "print(3)")
    assert (wrong.correct, wrong.certified, wrong.detail["failing_input"]) == (False, True, "4 5\n")
    write_jsonl(tmp_path / "references" / "solved.jsonl", [{"question_id": "1"}])
    with pytest.raises(ValueError, match=r"needs the texts `question_id` and `code`.*\['question_id'\]"):
        load_task("livecodebench", path=folder, references=file, sandbox="none").problems("train")


class Writes:
    """Writes a file when it is read from a pickle."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return exec, (f"open({self.file!r}, 'w').write('read')",)


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_pickles_are_read_in_the_sandbox(tmp_path, backend):
    lacking = make_backends()[backend].lacking
    if lacking is not None:
        pytest.skip(lacking)
    file = tmp_path / "written"
    private = packed(Writes(str(file)))
    folder = write_jsonl(
        tmp_path / "test.jsonl",
        [STDIN, {**STDIN, "question_id": "3", "question_content": "Hostile.", "private_test_cases": private}],
    )
    task = load_task("livecodebench", path=folder, sandbox=backend)
    assert len(task.problems("train")) == 1
    assert task.left_out("train") == {"3": "tests in an unknown form"}
    assert not file.exists()


@pytest.mark.parametrize(
    ("private", "reason"),
    [
        ("[]", "no visible and hidden tests"),
        ("", "no visible and hidden tests"),
        ("{", "tests in an unknown form"),
        ("AAAA", "tests in an unknown form"),
        (packed({"a": 1}), "tests in an unknown form"),
        (packed("[1]"), "tests in an unknown form"),
        (packed(contest_tests([("1", "1")], "interactive")), "tests in an unknown form"),
    ],
    ids=["none", "empty", "broken", "not compressed", "no text", "no test", "another type"],
)
def test_other_tests_are_left_out(tmp_path, private, reason):
    folder = write_jsonl(
        tmp_path / "test.jsonl",
        [STDIN, {**STDIN, "question_id": "3", "question_content": "Other.", "private_test_cases": private}],
    )
    task = load_task("livecodebench", path=folder, sandbox="none")
    assert task.left_out("train") == {"3": reason}
