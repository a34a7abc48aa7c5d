import numpy as np
from datasets import Features, Value

from pvg_hf.data.pairs.build import RowTexts
from pvg_hf.data.pool import write_pool

NO_ROW = np.array([], dtype=np.int64)


def test_texts_are_taken_in_any_order_across_files(tmp_path):
    features = Features({"solution": Value("string"), "problem": Value("string")})
    texts = [f"λ {index} " * (index % 3) for index in range(20_000)]  # some are empty, and no character is one byte
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, part in zip(paths, (texts[:12_000], texts[12_000:])):
        write_pool(path, [[{"solution": text, "problem": f"{text}?"} for text in part]], features)
    rows = np.array([19_999, 3, 12_000, 3, 11_999, 0])
    held = RowTexts(paths, {"solution": rows, "problem": rows[:3]})
    assert held.take("solution", rows) == [texts[row] for row in rows]
    assert held.take("solution", np.array([0, 12_000])) == [texts[0], texts[12_000]]
    assert held.take("solution", NO_ROW) == []
    assert held.take("problem", np.array([12_000, 19_999])) == [f"{texts[12_000]}?", f"{texts[19_999]}?"]


def test_an_unneeded_column_is_not_read(tmp_path):
    write_pool(tmp_path / "a.parquet", [[{"solution": "x"}]], Features({"solution": Value("string")}))
    held = RowTexts(tmp_path / "a.parquet", {"solution": np.array([0]), "reference": NO_ROW})
    assert held.take("solution", np.array([0])) == ["x"]
    assert held.take("reference", NO_ROW) == []
