import json

import pytest

from pvg_hf.tasks.json_rows import iterate_json_rows

ROWS = [{"question": "Größe?", "answer": "#### 1"}, {"question": "a\u2028b", "answer": "#### 2"}]
TEXT = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.encode("utf-8-sig") + b"\n",
        TEXT.replace("\n", "\r\n").encode("utf-8-sig"),
        TEXT.replace("\n", "\n\r\n \n").encode() + b"\r\n",
    ],
    ids=["no last line end", "byte order mark", "mark and Windows line ends", "empty lines"],
)
def test_a_file_is_read_however_it_was_saved(tmp_path, content):
    path = tmp_path / "train.jsonl"
    path.write_bytes(content)
    assert [row for _, row in iterate_json_rows(path)] == ROWS


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (TEXT.encode("utf-16"), "line 1, is not UTF-8"),
        (TEXT.encode("utf-16-le"), "line 1, is not"),
        (TEXT.encode("latin-1", errors="replace"), "line 1, is not UTF-8 .*0xf6"),
        (b"{}\n" + b"[" * 100_000, "line 2, has brackets"),
        (b'{"a": ' + b"9" * 5000 + b"}", "line 1, is not JSON"),
    ],
    ids=["UTF-16", "UTF-16 without a mark", "Latin-1", "nested too deeply", "a number with too many digits"],
)
def test_another_content_is_refused_with_file_and_line(tmp_path, content, part):
    path = tmp_path / "train.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"train\.jsonl`, {part}"):
        list(iterate_json_rows(path))
