"""A game of a task whose `grade` fails on some solutions."""

import pandas as pd
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.run.phase_record import read_record
from tests.support.game_runs import differing, whole_and_killed
from tests.support.recall_task import is_troublesome

CHANGES = {
    "task__name": "tests.support.recall_task:FlakyRecallTask",
    "num_rounds": 1,
    # This reward needs signals of the grades, which failed ones lack.
    "prover__reward": "composite",
    "prover__reward_options": {"weights": {"test_pass_rate": 1.0, "certified": 1.0}},
}


@pytest.fixture(scope="module")
def played(tmp_path_factory, make_recipe):
    return play(load_recipe(make_recipe(tmp_path_factory.mktemp("flaky"), **CHANGES)))


def test_solutions_that_nobody_can_grade_are_counted_and_have_no_label(played):
    pool = pd.concat([pd.read_parquet(file) for file in played.root.glob("pool/*/*.parquet")])
    pool = pool[~pool["is_truncated"]]
    failed = pool[[is_troublesome(*texts) for texts in zip(pool["reference"], pool["solution"], strict=True)]]
    assert 0 < len(failed) < len(pool) / 2
    assert set(failed["outcome"]) == {"NO_ANSWER"}
    assert failed[["label", "answer", "similarity"]].isna().all(axis=None)
    assert not failed["correct"].any()
    assert "`grade` failed on" in read_record(played.pool(-1)).summary


def test_a_prover_phase_that_is_killed_and_resumed_ends_in_the_same_bytes(played, tmp_path, make_recipe):
    file = r"prover/\.round-000\.partial/checkpoints/checkpoint-4/trainer_state"
    assert differing(*whole_and_killed(played, tmp_path, make_recipe, CHANGES, file)) == []
