import json
import logging
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pvg_hf.data.imports import import_solutions
from pvg_hf.data.pool import load_pool, write_pool
from pvg_hf.data.schema import solution_features

ROWS = [
    {"problem_id": "sum-0", "solution": "1"},
    {"problem_id": "sum-0", "solution": "5"},
    {"problem_id": "sum-2", "solution": "?"},
    {"problem_id": "sum-4", "solution": "5"},  # a problem of the prover
]


@pytest.fixture
def write(tmp_path):
    def write(rows, name="own.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write


def test_imported_solutions_are_graded_and_fit_the_pool(task, split, write, tmp_path):
    source = write(ROWS)
    imported = list(import_solutions(source, task, split))
    names = ("problem_id", "part", "solution", "correct", "label", "outcome", "sample_index")
    assert [tuple(row[name] for name in names) for row in imported] == [
        ("sum-0", "verifier", "1", True, 1, "VERIFIED", 0),
        ("sum-0", "verifier", "5", False, 0, "PROOF_INVALID", 1),
        ("sum-2", "verifier_heldout", "?", False, 0, "NO_ANSWER", 0),
    ]
    assert {(row["role"], row["round_index"], row["prover"], row["num_tokens"]) for row in imported} == {
        ("base", -1, source, None)
    }
    write_pool(tmp_path / "base.parquet", [imported], solution_features(task))
    assert load_pool(tmp_path / "base.parquet").to_list() == imported


def test_excluded_rows_are_reported(task, split, write, caplog):
    with caplog.at_level(logging.WARNING, logger="pvg_hf.data.imports"):
        list(import_solutions(write(ROWS), task, split))
    assert "1 of the 4 solutions" in caplog.text


def test_problems_are_found_by_their_text(task, split, write):
    source = write([{"question": " 1 +  1 =\n", "response": "2"}])
    columns = {"problem": "question", "solution": "response"}
    [row] = import_solutions(source, task, split, columns=columns)
    assert (row["problem_id"], row["problem"], row["correct"]) == ("sum-1", "1 + 1 =", True)


def test_an_unknown_id_falls_back_to_the_text(task, split, write):
    [row] = import_solutions(write([{"problem_id": 17, "problem": "1 + 1 =", "solution": "2"}]), task, split)
    assert row["problem_id"] == "sum-1"


@pytest.mark.parametrize(
    ("row", "columns"),
    [({"is_truncated": True}, {}), ({"cut": 1}, {"is_truncated": "cut"})],
    ids=["own name", "mapped"],
)
def test_a_truncated_solution_counts_as_cut_though_it_states_the_answer(task, split, write, row, columns):
    whole = {"problem_id": "sum-0", "solution": "1"}
    rows = [{**whole, **row}, {**whole, **dict.fromkeys(row, False)}, {**whole, **dict.fromkeys(row)}]
    imported = list(import_solutions(write(rows), task, split, columns=columns))
    assert [(row["is_truncated"], row["outcome"], row["correct"], row["label"]) for row in imported] == [
        (True, "TRUNCATED", False, 0),
        (False, "VERIFIED", True, 1),
        (False, "VERIFIED", True, 1),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [({"is_truncated": "no"}, "`is_truncated` .*'no'"), ({}, "no column `cut`")],
    ids=["not a truth value", "mapped and missing"],
)
def test_refuses_an_unreadable_truncation(task, split, write, row, message):
    columns = {} if row else {"is_truncated": "cut"}
    source = write([{"problem_id": "sum-0", "solution": "1", **row}])
    with pytest.raises(ValueError, match=message):
        list(import_solutions(source, task, split, columns=columns))


def test_an_unmapped_label_is_the_grade(task, split, write):
    source = write([*ROWS[:2], {**ROWS[0], "label": 0}])
    assert [row["label"] for row in import_solutions(source, task, split)] == [1, 0, 1]


def test_a_mapped_label_becomes_the_label_of_the_pool(task, split, write):
    labels = [0, True, None, "0", "true", "False", " 1", 1.0, math.nan]
    source = write([{"problem_id": "sum-0", "solution": "1", "human": label, "label": 1} for label in labels])
    told = [
        (row["label"], row["correct"]) for row in import_solutions(source, task, split, columns={"label": "human"})
    ]
    assert told == [(label, True) for label in (0, 1, None, 0, 1, 0, 1, 1, None)]


def test_an_unmapped_label_is_not_read(task, split, write):
    [row] = import_solutions(write([{"problem_id": "sum-0", "solution": "1", "label": 0}]), task, split)
    assert row["label"] == 1


def test_a_mapped_prover_is_kept(task, split, write):
    source = write([{"problem_id": "sum-0", "solution": "1", "model": "6b"}])
    [row] = import_solutions(source, task, split, columns={"prover": "model"})
    assert row["prover"] == "6b"


def test_parquet_files_and_folders_give_the_same_rows(task, split, write, tmp_path):
    folder = tmp_path / "dataset"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "train.parquet")
    expected = list(import_solutions(write(ROWS), task, split))
    for source in (str(folder / "train.parquet"), str(folder)):
        imported = list(import_solutions(source, task, split))
        assert [{**row, "prover": ""} for row in imported] == [{**row, "prover": ""} for row in expected]


LABELLED = pa.table({"problem_id": ["sum-0"], "solution": ["1"], "human": pa.array([1], pa.int64())})
FIRST_FILES = {
    "all null": (pa.nulls(1), None),
    "narrower integers": (pa.array([0], pa.int8()), 0),
    "floats with NaN": (pa.array([math.nan]), None),
    "truth values": (pa.array([False]), 0),
    "texts": (pa.array(["false"], pa.large_string()), 0),
}


@pytest.mark.parametrize(("first", "label"), FIRST_FILES.values(), ids=FIRST_FILES)
@pytest.mark.parametrize("is_reversed", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_files_of_a_folder_may_have_other_types_than_each_other(
    task, split, tmp_path, first, label, is_reversed, kind
):
    tables = [LABELLED.set_column(2, "human", first), LABELLED]
    for number, table in enumerate(reversed(tables) if is_reversed else tables):
        if kind == "parquet":
            pq.write_table(table, tmp_path / f"train-{number}.parquet")
        else:
            lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
            (tmp_path / f"train-{number}.jsonl").write_text(lines)
    rows = list(import_solutions(str(tmp_path), task, split, columns={"label": "human"}))
    assert [row["label"] for row in rows] == ([1, label] if is_reversed else [label, 1])


def test_a_column_that_a_file_of_a_folder_lacks_is_named_with_the_file(task, split, tmp_path):
    pq.write_table(LABELLED, tmp_path / "train-0.parquet")
    pq.write_table(LABELLED.drop_columns("human"), tmp_path / "train-1.parquet")
    with pytest.raises(ValueError, match=r"train-1\.parquet, row 0: .*`human`"):
        list(import_solutions(str(tmp_path), task, split, columns={"label": "human"}))


def test_an_id_that_a_data_frame_made_a_float_is_found(task, split, write):
    numbered = {
        part: rows.map(lambda row: {"problem_id": row["problem_id"].removeprefix("sum-")})
        for part, rows in split.items()
    }
    [row] = import_solutions(write([{"problem_id": 0.0, "solution": "1"}]), task, numbered)
    assert (row["problem_id"], row["correct"]) == ("0", True)


@pytest.mark.parametrize("name", ["own.jsonl", ""], ids=["the file", "its folder"])
def test_another_encoding_is_refused_with_the_file(task, split, write, tmp_path, name):
    path = tmp_path / "own.jsonl"
    write(ROWS)
    path.write_bytes(path.read_bytes().decode().encode("utf-16"))
    with pytest.raises(ValueError, match=r"own\.jsonl.*not UTF-8"):
        list(import_solutions(str(tmp_path / name), task, split))


def test_refuses_a_source_without_any_known_problem(task, split, write):
    with pytest.raises(ValueError, match="None of the 1 solutions"):
        list(import_solutions(write(ROWS[3:]), task, split))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"solution": "1"}', "neither `problem_id` nor `problem`"),
        ('{"problem_id": "sum-0"}', "no column `solution`"),
        ('{"problem_id": "sum-0", "solution": 1}', "`solution` .*is 1"),
        ('{"problem_id": "sum-0", "solution": "1", "problem": "2 + 1 ="}', "not that problem's: '2"),
        ('{"problem_id": "sum-0", "solution": "1"}', "no column `told`"),
        ('{"problem_id": "sum-0", "solution": "1", "told": "yes"}', "`told` .*got 'yes'"),
    ],
)
def test_broken_lines_are_named(task, split, tmp_path, line, message):
    path = tmp_path / "own.jsonl"
    path.write_text('{"problem_id": "sum-0", "solution": "1", "told": 1}\n\n' + line + "\n")
    with pytest.raises(ValueError, match=rf"own\.jsonl, line 3: .*{message}"):
        list(import_solutions(str(path), task, split, columns={"label": "told"}))


@pytest.mark.parametrize("name", ["none.jsonl", "none.parquet"])
def test_a_missing_file_is_named(task, split, tmp_path, name):
    with pytest.raises(ValueError, match=rf"no file `{tmp_path / name}`\."):
        list(import_solutions(str(tmp_path / name), task, split))


@pytest.mark.parametrize("source", ["none", "organisation/none"])
def test_a_missing_folder_or_dataset_is_named(task, split, source):
    with pytest.raises(ValueError, match=f"Cannot read `{source}`: "):
        list(import_solutions(source, task, split))


@pytest.fixture
def rounds(tmp_path):
    """A folder laid out as the solutions of a run on the Hub: a config per round, a split per role."""
    folder, configs = tmp_path / "solutions", {"base": ["base"], "round-000": ["helpful", "sneaky"]}
    card = ["---", "configs:"]
    for config, names in configs.items():
        card += [f"- config_name: {config}", "  data_files:"]
        for number, name in enumerate(names):
            card += [f"  - split: {name}", f"    path: {config}/{name}.parquet"]
            path = folder / config / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist([{**ROWS[0], "solution": f"{config} {number}"}]), path)
    (folder / "README.md").write_text("\n".join([*card, "---", ""]))
    return str(folder)


@pytest.mark.parametrize(
    ("config", "part", "text"),
    [("base", "base", "base 0"), ("round-000", "helpful", "round-000 0"), ("round-000", "sneaky", "round-000 1")],
)
def test_a_config_and_a_split_are_chosen(task, split, rounds, config, part, text):
    [row] = import_solutions(rounds, task, split, config=config, split=part)
    assert row["solution"] == text


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, r"\['base', 'round-000'\].*`bootstrap.import_config`"),
        ({"config": "round-001"}, r"round-001.*\['base', 'round-000'\]"),
        ({"config": "round-000"}, r"several splits.*\['helpful', 'sneaky'\].*`bootstrap.import_split`"),
        ({"config": "base", "split": "sneaky"}, r"no split `sneaky`.*\['base'\]"),
        ({"config": "base", "split": "base", "revision": "v1"}, "no revisions; .*{'revision': 'v1'}"),
    ],
)
def test_an_unknown_config_or_split_lists_the_existing_ones(task, split, rounds, choice, message):
    with pytest.raises(ValueError, match=message):
        list(import_solutions(rounds, task, split, **choice))


def test_a_file_has_no_config_split_or_revision(task, split, write):
    with pytest.raises(ValueError, match=r"a file.* {'config': 'base', 'split': 'train'}"):
        list(import_solutions(write(ROWS), task, split, config="base", split="train"))


def test_refuses_to_map_an_unknown_column(task, split, write):
    with pytest.raises(ValueError, match=r"`answer` in `import_columns`.*`problem_id`"):
        list(import_solutions(write(ROWS), task, split, columns={"answer": "answer"}))
