import filecmp
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Features, Value

from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.data.pool import ROW_GROUP_SIZE, iterate_pool, load_pool, write_pool

FEATURES = Features({"problem_id": Value("string"), "label": Value("int8")})


def rows(num_rows, start=0):
    return [{"problem_id": f"p{index}", "label": index % 2} for index in range(start, start + num_rows)]


@pytest.fixture
def pool(tmp_path):
    path = tmp_path / "pool" / "base.parquet"
    write_pool(path, [rows(20_000)], FEATURES)
    return path


def test_written_rows_are_read_back(pool):
    dataset = load_pool(pool)
    assert dataset.features == FEATURES
    assert dataset.to_list() == rows(20_000)
    assert dataset.cache_files == []


def test_null_labels_are_preserved(tmp_path):
    write_pool(tmp_path / "a.parquet", [[{"problem_id": "p", "label": None}]], FEATURES)
    assert load_pool(tmp_path / "a.parquet")[0] == {"problem_id": "p", "label": None}


def test_metadata_of_somebody_s_file_decodes_nothing(tmp_path):
    """As a picture, a value would be opened from the path or address that it names."""
    names_a_file = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    table = pa.table(
        {"problem_id": ["p"], "solution": pa.array([{"bytes": None, "path": "/nowhere.png"}], names_a_file)}
    )
    info = {
        "info": {"features": {"problem_id": {"dtype": "string", "_type": "Value"}, "solution": {"_type": "Image"}}}
    }
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(info)}), tmp_path / "a.parquet")
    assert load_pool(tmp_path / "a.parquet")[0]["solution"] == {"bytes": None, "path": "/nowhere.png"}


def test_reading_is_bounded_by_the_row_groups(pool):
    assert [len(batch) for batch in iterate_pool(pool)] == [
        ROW_GROUP_SIZE,
        ROW_GROUP_SIZE,
        20_000 - 2 * ROW_GROUP_SIZE,
    ]
    metadata = pq.read_metadata(pool)
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) == ROW_GROUP_SIZE


def test_equal_rows_give_equal_bytes_however_they_are_batched(pool, tmp_path):
    other = tmp_path / "other.parquet"
    num_rows = write_pool(other, (rows(1000, start=start) for start in range(0, 20_000, 1000)), FEATURES)
    assert num_rows == 20_000
    assert filecmp.cmp(other, pool, shallow=False)


def test_an_empty_pool_keeps_its_columns(tmp_path):
    assert write_pool(tmp_path / "empty.parquet", [], FEATURES) == 0
    dataset = load_pool(tmp_path / "empty.parquet")
    assert (len(dataset), dataset.features) == (0, FEATURES)


def test_files_are_read_in_order_and_columns_as_asked(pool, tmp_path):
    write_pool(tmp_path / "more.parquet", [rows(3, start=90_000)], FEATURES)
    dataset = load_pool([str(pool), tmp_path / "more.parquet"], columns=["label", "problem_id"])
    assert dataset.column_names == ["label", "problem_id"]
    assert dataset[20_000:]["problem_id"] == ["p90000", "p90001", "p90002"]
    assert load_pool(pool, columns=["label"]).column_names == ["label"]


def test_only_the_rows_of_the_parts_asked_for_are_gathered(tmp_path):
    features = Features({**FEATURES, "part": Value("string")})
    parts = ("verifier", "verifier_heldout", "test")
    written = [{**row, "part": parts[index % 3]} for index, row in enumerate(rows(20_000))]
    write_pool(tmp_path / "a.parquet", [written], features)
    heldout = load_pool(tmp_path / "a.parquet", parts=["verifier_heldout"])
    assert heldout.to_list() == written[1::3]
    labels = load_pool(tmp_path / "a.parquet", ["label"], parts=("test", "verifier"))
    assert labels.column_names == ["label"]
    assert labels["label"][:] == [row["label"] for row in written if row["part"] != "verifier_heldout"]
    assert len(load_pool(tmp_path / "a.parquet", parts=())) == 0


def test_a_failed_write_leaves_the_old_file_and_nothing_else(pool):
    before = pool.read_bytes()

    def broken():
        yield rows(10_000)
        raise RuntimeError("the prover died")

    with pytest.raises(RuntimeError, match="the prover died"):
        write_pool(pool, broken(), FEATURES)
    assert pool.read_bytes() == before
    assert [path.name for path in pool.parent.iterdir()] == ["base.parquet"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"problem_id": "p"}, r"missing .*\['label'\], unknown .*\[\]"),
        ({"problem_id": "p", "label": 1, "lable": 1}, r"missing .*\[\], unknown .*\['lable'\]"),
    ],
)
def test_refuses_rows_that_do_not_fit(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        write_pool(tmp_path / "a.parquet", [[row]], FEATURES)
    assert list(tmp_path.iterdir()) == []


def cut_in_half(data):
    return data[: len(data) // 2]


def flip_a_byte(data):
    return data[:1000] + bytes([data[1000] ^ 255]) + data[1001:]


@pytest.mark.parametrize("damage", [cut_in_half, flip_a_byte, lambda data: b""], ids=["half", "flipped byte", "empty"])
@pytest.mark.parametrize("read", [load_pool, lambda path: list(iterate_pool(path))], ids=["load_pool", "iterate_pool"])
def test_a_damaged_file_is_named(pool, damage, read):
    pool.write_bytes(damage(pool.read_bytes()))
    with pytest.raises(DamagedFileError, match=r"base\.parquet .*Parquet") as caught:
        read(pool)
    assert caught.value.path == pool
    assert "Delete" not in str(caught.value)  # not every pool is a run's


def test_missing_columns_are_named(pool):
    with pytest.raises(ValueError, match=r"base\.parquet` .*\['score'\].*\['problem_id', 'label'\]"):
        list(iterate_pool(pool, ["label", "score"]))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
        load_pool(tmp_path / "none.parquet")


def test_refuses_an_empty_list_of_files():
    with pytest.raises(ValueError, match="No pool file"):
        load_pool([])


def test_refuses_pools_of_two_tasks(pool, tmp_path):
    write_pool(tmp_path / "b.parquet", [], Features({**FEATURES, "level": Value("int32")}))
    with pytest.raises(ValueError, match="one task"):
        load_pool([pool, tmp_path / "b.parquet"])
    assert len(load_pool([pool, tmp_path / "b.parquet"], columns=["label"])) == 20_000
