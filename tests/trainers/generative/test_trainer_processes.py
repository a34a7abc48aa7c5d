"""Two processes pay and count evaluations as one does."""

import json

import pytest

from pvg_hf.analyses.form import read_evaluation
from tests.support.prover_training import read_completions
from tests.support.score_training import save_evaluator
from tests.support.two_processes import run_on_two_processes

pytestmark = pytest.mark.slow


def test_a_group_that_lies_on_two_processes(tmp_path):
    run_on_two_processes("straddling_scores.py", save_evaluator(tmp_path / "evaluator"), tmp_path)
    results = [json.loads((tmp_path / f"process-{index}.json").read_text()) for index in (0, 1)]
    assert [result["num_processes"] for result in results] == [2, 2]
    assert results[0]["log"][0]["format_rate"] == results[1]["log"][0]["format_rate"]
    for step, log in enumerate(results[0]["log"], start=1):
        table = read_completions(tmp_path, step)
        assert len(table) == 12  # rows 4 to 7 are one group, rows 0 to 5 those of the first process
        groups = table.groupby(table.index // 4)
        assert (groups["prompt"].nunique() == 1).all()
        for row in table[~table["score"].isna()].itertuples():
            read = read_evaluation(row.completion)
            quality = 0.5 if read.has_form and read.analysis != "flaw" else 0.0
            agreement = 0 if read.score is None else max(0, 1 - abs(read.score - row.score))
            assert row.evaluation == pytest.approx(0.125 * read.has_form + 0.875 * agreement * quality)
        unknown = table["score"].isna()
        assert table[unknown]["evaluation"].isna().all()
        assert (table[unknown]["advantage"] == 0).all()
        assert log["format_rate"] == pytest.approx(table["has_form"].mean())
        assert log["unscorable"] == pytest.approx(unknown.mean())
        assert log["score_accuracy"] == pytest.approx((table["predicted"] == table["score"])[~unknown].mean())
