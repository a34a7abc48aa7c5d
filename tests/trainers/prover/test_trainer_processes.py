"""Two processes train a prover as one does."""

import json

import pytest

from tests.support.prover_training import GROUP_SIZE, read_completions
from tests.support.rewards_by_hand import rewards_by_hand
from tests.support.two_processes import run_on_two_processes

pytestmark = pytest.mark.slow


def test_a_group_that_lies_on_two_processes(prover, tmp_path):
    """What is logged of the gathered rows is what one process computes of them."""
    run_on_two_processes("straddling_groups.py", prover, tmp_path)
    results = [json.loads((tmp_path / f"process-{index}.json").read_text()) for index in (0, 1)]
    assert [result["num_processes"] for result in results] == [2, 2]
    assert results[0]["weights"] == results[1]["weights"]
    assert (
        results[0]["log"][0]["score_correctness_correlation"] == results[1]["log"][0]["score_correctness_correlation"]
    )
    for step, log in enumerate(results[0]["log"], start=1):
        table = read_completions(tmp_path, step)
        assert len(table) == 12  # rows 4 to 7 are one group, rows 0 to 5 those of the first process
        groups = table.groupby(table.index // GROUP_SIZE)
        assert (groups["prompt"].nunique() == 1).all()
        rows = [
            {"problem": prompt.split("\n")[0], "role": role} for prompt, role in zip(table["prompt"], table["role"])
        ]
        groups_by_hand = rewards_by_hand(rows, table["completion"].tolist(), table["outcome"] == "TRUNCATED")
        by_hand = [reward for group in groups_by_hand for reward in group]
        assert table["src"].tolist() == pytest.approx(by_hand, abs=1e-5)
        assert table["advantage"].tolist() == pytest.approx(
            (table["src"] - groups["src"].transform("mean")).tolist(), abs=1e-5
        )
        for role in ("helpful", "sneaky"):
            mine = table[table["role"] == role]
            assert log[f"accuracy/{role}"] == pytest.approx(mine["correct"].mean())
            assert log[f"reward/{role}"] == pytest.approx(mine["src"].mean())
