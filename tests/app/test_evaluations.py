"""Written evaluations of a run's verifiers, as a page reads them."""

import pandas as pd
import pytest
import yaml

from pvg_hf.app.evaluations_page import KINDS
from pvg_hf.app.runs import OpenRun
from pvg_hf.config import load_recipe
from pvg_hf.core.integrity import replay_advice

ROW = {
    **{"problem": "How many?", "role": "sneaky", "solution": "#### 3", "reference": 0.0, "predicted": 1.0},
    **{"evaluation": "Fine.", "issues": "[]"},
}


@pytest.fixture
def run(tmp_path) -> OpenRun:
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(load_recipe({}).to_dict()))
    for name in ("round-000", "round-001", "round-001.bak"):
        folder = tmp_path / "evaluation" / name
        folder.mkdir(parents=True)
        pd.DataFrame([ROW]).to_parquet(folder / "evaluations.parquet")
    (tmp_path / "evaluation" / "round-002").mkdir()  # whose verifier wrote nothing
    return OpenRun(tmp_path)


def test_rounds_with_written_evaluations_are_listed(run):
    found = run.evaluations()
    assert (list(found.tables), found.damage) == ([0, 1], [])
    assert found.tables[1].to_dict("records") == [ROW]
    assert run.evaluations() is found


@pytest.mark.parametrize(
    "damage",
    [lambda file: file.write_bytes(b"x"), lambda file: pd.DataFrame({"a": [1]}).to_parquet(file)],
    ids=["not Parquet", "other columns"],
)
def test_a_damaged_file_is_named_and_the_others_are_read(run, damage):
    run.evaluations()
    file = run.folder.evaluation(1) / "evaluations.parquet"
    damage(file)
    found = run.evaluations()
    assert list(found.tables) == [0]
    (text,) = found.damage
    assert text.startswith(f"{file} is not a readable Parquet file")
    assert text.endswith(replay_advice(file.parent))


def test_kinds_by_hand():
    rows = pd.DataFrame(
        {"reference": [0.0, 1.0, 0.5], "predicted": [1.0, 1.0, None], "issues": ['[["x", false]]', "[]", "[]"]}
    )
    assert [list(choose(rows).index) for choose in KINDS.values()] == [[0, 1, 2], [0, 2], [0], [0]]


def test_an_issue_that_quotes_the_word_false_is_not_hallucinated():
    rows = pd.DataFrame({"issues": ['[["Line 2 calls a true statement false.", true]]', '[["x", null]]']})
    assert KINDS["hallucinated issue"](rows).empty
    assert list(KINDS["hallucinated issue"](rows[:0]).columns) == ["issues"]
