"""Files of people: kinds, compression, splits of folders, and what is unreadable."""

import bz2
import gzip
import json
import logging
import lzma
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pvg_hf.core import data_files
from pvg_hf.core.data_files import read_file, read_rows

ROWS = [{"question": "Größe?", "answer": "#### 1"}, {"question": "a\u2028b", "answer": "#### 2"}]
TEXT = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
LIST = json.dumps(ROWS, ensure_ascii=False, indent=2)
CSV = "question;answer\r\n" + "\r\n".join(";".join(row.values()) for row in ROWS)
COMPRESS = {
    "": lambda content: content,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


def parquet_of(rows) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


CONTENTS = {
    "lines.jsonl": TEXT.encode(),
    "lines.ndjson": TEXT.encode(),
    "lines.json": TEXT.encode(),
    "UPPER.JSONL": TEXT.encode(),
    "list.json": LIST.encode(),
    "list.jsonl": LIST.encode(),
    "one-line list.json": json.dumps(ROWS).encode(),
    "under data.json": json.dumps({"data": ROWS}, indent=1).encode(),
    "under data on a line.json": json.dumps({"version": 1, "data": ROWS}).encode(),
    "under data from its line.json": b'{"data": [\n' + ",\n".join(map(json.dumps, ROWS)).encode() + b"\n]}\n",
    "under data on its line.json": b'{"version": 1,\n"data": ' + LIST.encode() + b"}",
    "commas.csv": CSV.replace(";", ",").encode(),
    "semicolons.csv": CSV.encode(),
    "tabs.tsv": CSV.replace(";", "\t").encode(),
    "table.parquet": parquet_of(ROWS),
}


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", CONTENTS)
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name, ending):
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(COMPRESS[ending](CONTENTS[name]))
    assert [row for _, row in read_rows(str(path))] == ROWS


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig") + b"\n",
        TEXT.replace("\n", "\r\n").encode("utf-8-sig"),
        TEXT.replace("\n", "\n\r\n \n").encode() + b"\r\n",
        LIST.encode("utf-8-sig"),
    ],
    ids=["no last line end", "byte order mark", "mark and Windows line ends", "empty lines", "a list with a mark"],
)
def test_a_file_is_read_however_it_was_saved(tmp_path, content):
    path = tmp_path / "train.jsonl"
    path.write_bytes(content)
    assert [row for _, row in read_file(path, is_strict=True)] == ROWS


def test_files_that_datasets_writes_beside_data_are_no_data(tmp_path):
    (tmp_path / "dataset_infos.json").write_text('{"default": {}}')
    (tmp_path / "data.arrow").write_bytes(b"")
    with pytest.raises(ValueError, match="`to_parquet` or `to_json`"):
        list(read_rows(str(tmp_path)))
    (tmp_path / "a.jsonl").write_text(TEXT)
    assert [row for _, row in read_rows(str(tmp_path))] == ROWS


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_column_named_data_is_a_column(tmp_path, name, number):
    row = {"problem": "p", "data": [{"problem": "q"}]}
    (tmp_path / name).write_text((json.dumps(row) + "\n") * number)
    assert [found for _, found in read_file(tmp_path / name)] == [row] * number
    (tmp_path / "b.jsonl").write_text('{"data": [{"problem": "q"}]}')
    assert [found for _, found in read_file(tmp_path / "b.jsonl")] == [{"data": [{"problem": "q"}]}]


def test_rows_have_places(tmp_path):
    for name, content in (("a.jsonl", "{}\n\n{}"), ("a.json", "[{}, {}]"), ("a.csv", "x\n1\n2\n")):
        (tmp_path / name).write_text(content)
    places = {name: [place for place, _ in read_file(tmp_path / name)] for name in ("a.jsonl", "a.json", "a.csv")}
    assert places == {
        "a.jsonl": [f"{tmp_path}/a.jsonl, line 1", f"{tmp_path}/a.jsonl, line 3"],
        "a.json": [f"{tmp_path}/a.json, row 0", f"{tmp_path}/a.json, row 1"],
        "a.csv": [f"{tmp_path}/a.csv, row 2", f"{tmp_path}/a.csv, row 3"],
    }


def test_columns_without_a_name_may_be_several(tmp_path):
    (tmp_path / "a.csv").write_text("a,,\n1,,\n")
    assert [row["a"] for _, row in read_file(tmp_path / "a.csv")] == ["1"]


def test_cells_are_texts_and_may_be_long_or_missing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f'\ufeffkey,text,score\n1,"{"x" * 200_000}\ny",-1e400\n2\n')
    (_, first), (_, second) = read_file(path)
    assert (first["key"], len(first["text"]), first["score"]) == ("1", 200_002, "-1e400")
    assert second == {"key": "2", "text": None, "score": None}


def test_numbers_that_are_not_finite_are_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": -1e400, "b": Infinity, "c": NaN}\n')
    ((_, row),) = read_file(path)
    assert (row["a"], row["b"], math.isnan(row["c"])) == (-math.inf, math.inf, True)


UNREADABLE = {
    "not JSON": (b"{", "is not JSON"),
    "a trailing comma": (b"{},", "is not JSON"),
    "another type": (b"[1]", r"is \[1\]; it must be an object"),
    "UTF-16": ('{"a": 1}'.encode("utf-16-le"), "is not"),
    "Latin-1": ('{"a": "ö"}'.encode("latin-1"), "is not UTF-8 .*0xf6"),
    "nested too deeply": (b'{"a":' + b"[" * 100_000, "has brackets"),
    "a number with too many digits": (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
    "half of a surrogate pair": (rb'{"solution": "so \ud83d"}', "has half of a surrogate pair.*solution"),
    "a huge line": (b'{"a": "' + b"x" * 5000 + b'"}', "is longer than"),
}


@pytest.fixture
def short_lines(monkeypatch):
    monkeypatch.setattr(data_files, "MAX_LINE", 1000)


@pytest.mark.parametrize(("line", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_line_is_skipped_counted_and_named(tmp_path, caplog, request, line, reason):
    if reason == "is longer than":
        request.getfixturevalue("short_lines")
    path = tmp_path / "own.jsonl"
    path.write_bytes(b'{"a": 1}\n\n' + line + b'\n{"a": 2}\n{"a": 3}\n')
    with caplog.at_level(logging.WARNING, logger="pvg_hf"):
        rows = list(read_rows(str(path)))
    assert rows == [(f"{path}, line {line}", {"a": value}) for line, value in ((1, 1), (4, 2), (5, 3))]
    [record] = caplog.records
    assert f"Skipped 1 of the 4 lines of `{path}`" in record.message
    with pytest.raises(ValueError, match=rf"own\.jsonl, line 3 {reason}"):
        list(read_file(path, is_strict=True))


@pytest.mark.parametrize(
    ("num_good", "num_bad", "is_refused"),
    [
        (1, 1, False),
        (1, 3, True),
        (2, 2, True),
        (10, 3, False),
        (10, 4, True),
        (397, 4, False),
        (395, 4, True),
        (0, 1, True),
    ],
)
def test_more_than_a_few_unreadable_lines_are_refused(tmp_path, num_good, num_bad, is_refused):
    """A few are 3, at most a quarter if not 1, or 1 % of the lines: 4 of 401 are 0.998 %, 4 of 399 are 1.003 %."""
    path = tmp_path / "own.jsonl"
    path.write_text("{}\n" * num_good + "{},\n" * num_bad)
    if is_refused:
        with pytest.raises(ValueError, match=rf"{num_bad} of the {num_good + num_bad} lines .*line {num_good + 1} is"):
            list(read_file(path))
    else:
        assert len(list(read_file(path))) == num_good


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", r"unsupported kind; .*\.parquet"),
        ("a.json", b"[{}, ", "Cannot read .*it is not JSON"),
        ("a.json", b'[{}, 1, "x", [], 2]', "4 of the 5 lines .*row 1 is 1; it must be an object"),
        ("a.csv", b"a,b\n1,2,3\n", "row 2 has 3 cells, but the heading has 2"),
        ("a.csv", b"a,b,a\n1,2,3\n", "the heading names 'a' more than once"),
        ("a.csv", b"a\n\xff\n", "Cannot read .*is not UTF-8"),
        ("a.parquet", parquet_of(ROWS)[:100], r"Cannot read .*a\.parquet"),
        ("a.jsonl.gz", gzip.compress(TEXT.encode())[:40], r"Cannot read .*a\.jsonl\.gz"),
        ("a.jsonl.gz", TEXT.encode(), r"Cannot read .*a\.jsonl\.gz"),
        ("a.jsonl.xz", lzma.compress(TEXT.encode())[:40], r"Cannot read .*a\.jsonl\.xz"),
        ("a.jsonl.bz2", bz2.compress(TEXT.encode())[:40], r"Cannot read .*a\.jsonl\.bz2"),
        ("a.jsonl.zst", COMPRESS[".zst"](TEXT.encode())[:40], r"Cannot read .*a\.jsonl\.zst"),
    ],
    ids=[
        *(
            "unknown kind",
            "cut JSON",
            "JSON of other rows",
            "cells without a heading",
            "equal headings",
            "not UTF-8",
            "cut Parquet",
        ),
        *("cut gzip", "no gzip", "cut xz", "cut bz2", "cut zstd"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        list(read_rows(str(tmp_path / name)))
    assert "\n" not in str(caught.value)


def test_a_huge_line_of_a_table_and_a_huge_document_are_refused(tmp_path, monkeypatch, short_lines):
    monkeypatch.setattr(data_files, "MAX_DOCUMENT", 1000)
    (tmp_path / "a.csv").write_text("a\n" + "x" * 5000)
    (tmp_path / "a.json").write_text(json.dumps([{"a": "x" * 5000}]))
    with pytest.raises(ValueError, match="line 2 is longer than"):
        list(read_file(tmp_path / "a.csv"))
    with pytest.raises(ValueError, match="one object a line"):
        list(read_file(tmp_path / "a.json"))


def write_folder(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"file": name}) + "\n")


SPLITS = {
    "one split of another name": (["test.jsonl"], None, ["test.jsonl"]),
    "train among several": (["test.jsonl", "train.jsonl"], None, ["train.jsonl"]),
    "no names of splits": (["a.jsonl", "b.ndjson"], None, ["a.jsonl", "b.ndjson"]),
    "kinds in a mixture": (["a.json", "b.jsonl"], "train", ["a.json", "b.jsonl"]),
    "a word of a split": (["my_dev_set.jsonl", "train.jsonl"], "validation", ["my_dev_set.jsonl"]),
    "a file's own name": (["train_sft.jsonl", "train_prefs.jsonl"], "train_prefs", ["train_prefs.jsonl"]),
    "a name beside a split": (["train.jsonl", "extra.jsonl"], "extra", ["extra.jsonl"]),
    "a name of no split": (["filtered.jsonl", "raw.jsonl"], "filtered", ["filtered.jsonl"]),
    "shards": (
        ["data/gen-00000-of-00002.jsonl", "data/gen-00001-of-00002.jsonl", "data/x-00000-of-00001.jsonl"],
        "gen",
        ["data/gen-00000-of-00002.jsonl", "data/gen-00001-of-00002.jsonl"],
    ),
    "folders": (["train/a.jsonl", "test/a.jsonl"], "test", ["test/a.jsonl"]),
    "hidden files": (["a.jsonl", ".b.jsonl", ".cache/c.jsonl"], None, ["a.jsonl"]),
    "a pattern in a name": (["a [1].jsonl"], None, ["a [1].jsonl"]),
}


@pytest.mark.parametrize(("names", "split", "expected"), SPLITS.values(), ids=SPLITS)
def test_the_split_of_a_folder_is_chosen(tmp_path, names, split, expected):
    write_folder(tmp_path, *names)
    assert [row["file"] for _, row in read_rows(str(tmp_path), split=split)] == expected


def test_the_split_that_is_taken_of_several_is_said(tmp_path, caplog):
    write_folder(tmp_path, "test.jsonl", "train.jsonl")
    with caplog.at_level(logging.INFO, logger="pvg_hf"):
        list(read_rows(str(tmp_path)))
    assert f"Reading the split `train` of `{tmp_path}`, which has ['test', 'train']" in caplog.text


@pytest.mark.parametrize(
    ("names", "choice", "message"),
    [
        (["test.jsonl", "dev.jsonl"], {}, r"several splits, .*\['validation', 'test'\].*`--split validation`"),
        (["test.jsonl"], {"split": "train"}, r"no split `train`. Available: \['test'\]. .*`--split test`"),
        (["a.jsonl"], {"config": "main"}, "no card .*'config': 'main'"),
        (["a.jsonl"], {"revision": "v1"}, "no revisions; .*'revision': 'v1'"),
        (["a.txt"], {}, "no data file"),
    ],
    ids=["several without train", "unknown", "config", "revision", "no file that is read"],
)
def test_another_choice_lists_what_there_is(tmp_path, names, choice, message):
    write_folder(tmp_path, *names)
    with pytest.raises(ValueError, match=message):
        list(read_rows(str(tmp_path), **choice))


@pytest.mark.parametrize("name", ["none.jsonl", "none.tsv.gz"])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(ValueError, match=f"no file `{tmp_path / name}`"):
        list(read_rows(str(tmp_path / name)))
