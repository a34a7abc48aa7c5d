import numpy as np
from datasets import Features, Value

from pvg_hf.data.pool import write_pool
from pvg_hf.data.texts import RowTexts


def test_texts_are_taken_in_any_order_across_files(tmp_path):
    features = Features({"solution": Value("string")})
    texts = [f"λ {index} " * (index % 3) for index in range(20_000)]  # some are empty, and no character is one byte
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, part in zip(paths, (texts[:12_000], texts[12_000:])):
        write_pool(path, [[{"solution": text} for text in part]], features)
    rows = np.array([19_999, 3, 12_000, 3, 11_999, 0])
    held = RowTexts(paths, "solution", rows)
    assert held.take(rows) == [texts[row] for row in rows]
    assert held.take(np.array([0, 12_000])) == [texts[0], texts[12_000]]
    assert held.take(np.array([], dtype=np.int64)) == []


def test_nothing_wanted_is_nothing_held(tmp_path):
    write_pool(tmp_path / "a.parquet", [[{"solution": "x"}]], Features({"solution": Value("string")}))
    held = RowTexts(tmp_path / "a.parquet", "solution", np.array([], dtype=np.int64))
    assert held.take(np.array([], dtype=np.int64)) == []
