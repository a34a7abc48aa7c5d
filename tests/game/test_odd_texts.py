"""A game of problems with texts that templates, format strings, lines, pages or C might read."""

import json

import pandas as pd
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.data.problems import GameProblems
from tests.support.recall_task import ODD_TEXT

pytestmark = pytest.mark.game


def test_texts_stay_as_they_are_in_a_whole_game(tmp_path, make_recipe):
    scratch = {"config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}, "vocab_size": 300}
    source = tmp_path / "solutions # 1.jsonl"
    recipe = make_recipe(
        tmp_path / "it's {a} #1, größer",
        task={"name": "tests.support.recall_task:OddRecallTask", "options": {"num_train": 60, "num_test": 1}},
        num_rounds=1,
        bootstrap__import_from=str(source),
        prover__scratch=scratch,
        verifier__scratch=scratch,
        verifier__max_length=256,
        watchdogs__max_truncated=1.0,
        logging__report=True,
    )
    problems = GameProblems.load(load_recipe(recipe)).parts
    rows = [
        {"problem": row["problem"], "solution": text}
        for part in ("verifier", "verifier_heldout")
        for row in problems[part]
        for text in (row["reference"], f"{ODD_TEXT}\n#### 1")
    ]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8-sig")
    folder = play(load_recipe(recipe))
    assert folder.root.parent.name == "it's {a} #1, größer"
    pool = pd.read_parquet(folder.pool(-1) / "base.parquet")
    assert list(zip(pool["problem"], pool["solution"], strict=True)) == [tuple(row.values()) for row in rows]
    minted = pd.concat([pd.read_parquet(file) for file in folder.pool(0).glob("*.parquet")])
    assert minted["problem"].str.startswith(ODD_TEXT).all()
    assert folder.report.stat().st_size > 0
