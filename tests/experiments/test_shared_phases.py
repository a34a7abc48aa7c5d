"""Runs that begin with the first phases of another run."""

import shutil
from dataclasses import fields

import pandas as pd
import pytest

from experiments.shared_phases import begin_with, same_phases
from pvg_hf import load_recipe, play
from pvg_hf.config.fields import AfterBootstrap, marked_keys
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.run.layout import PhaseKey, RunFolder
from tests.support.game_runs import bytes_of

BOOTSTRAP, VERIFIER = PhaseKey("bootstrap"), PhaseKey("verifier", 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [BOOTSTRAP, VERIFIER]),
        ({"num_rounds": 5, "prover__reward": "cgc", "prover__roles": "helpful_only"}, [BOOTSTRAP, VERIFIER]),
        ({"stopping__rule": "parity", "prover__max_steps": 9, "hub__push": True}, [BOOTSTRAP, VERIFIER]),
        ({"verifier__max_steps": 9}, [BOOTSTRAP]),
        ({"rounds": {0: {"verifier": {"max_steps": 9}}}}, [BOOTSTRAP]),
        ({"rounds": {1: {"verifier": {"max_steps": 9}}}}, [BOOTSTRAP, VERIFIER]),
        ({"seed": 1}, []),
        ({"task__sneaky_sees": "reference_answer"}, []),
        ({"prover__temperature": 0.5}, []),
        ({"bootstrap__solutions_per_problem": 3}, []),
        ({"noise__epsilon": 0.1}, []),
        ({"prover__weight_decay": 0.1, "prover__micro_batch_size": 4}, [BOOTSTRAP, VERIFIER]),
        ({"stopping__labels": "observed"}, [BOOTSTRAP]),  # by which the verifier's threshold is chosen
        ({"data__correct_source": "dataset"}, [BOOTSTRAP]),
    ],
    ids=str,
)
def test_phases_are_shared_if_all_that_they_read_is_equal(tmp_path, make_recipe, changes, expected):
    first = load_recipe(make_recipe(tmp_path, name="first"))
    assert same_phases(load_recipe(make_recipe(tmp_path, name="second", **changes)), first) == expected


# Keys on which the first phases depend, or may depend.
READ_BY_FIRST_PHASES = [
    "model",
    "revision",
    "dtype",
    "quantization",
    "lora",
    "scratch",
    "warmup",
    "trainer",
    "self_evaluation",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "chat_template_kwargs",
    "generation",
    "max_completion_length",
]


def test_every_key_of_the_prover_says_when_it_takes_effect():
    """A new key either has the mark or is listed above; unmarked, it keeps runs from sharing their first phases."""
    marked = [key for key in marked_keys(ProverConfig, AfterBootstrap) if "." not in key]
    assert sorted([*marked, *READ_BY_FIRST_PHASES]) == sorted(field.name for field in fields(ProverConfig))


@pytest.mark.game
def test_a_run_that_begins_with_another_ends_in_the_same_bytes(tmp_path, make_recipe, reference):
    changes = {"name": "other", "num_rounds": 1, "prover__reward": "cgc"}
    alone = load_recipe(make_recipe(tmp_path / "alone", **changes))
    play(alone)
    recipe = load_recipe(make_recipe(tmp_path / "shared", **changes))
    assert begin_with(recipe, reference) == [BOOTSTRAP, VERIFIER]
    before = bytes_of(RunFolder.of(recipe))
    assert before
    assert begin_with(recipe, reference) == []
    play(recipe)
    mine, others = (bytes_of(RunFolder.of(each)) for each in (recipe, alone))
    assert mine.keys() == others.keys()
    differing = {path for path in mine if mine[path] != others[path]}
    assert all(path.startswith("pool/base/") for path in differing)
    for path in differing:  # the shared solutions name the run whose base prover wrote them
        tables = [pd.read_parquet(RunFolder.of(each).root / path).drop(columns="prover") for each in (recipe, alone)]
        pd.testing.assert_frame_equal(*tables)


def test_a_damaged_phase_is_not_copied(tmp_path, make_recipe, reference):
    source = RunFolder(shutil.copytree(reference.root, tmp_path / "source"))
    pool = source.pool(-1) / "base.parquet"
    pool.write_bytes(pool.read_bytes()[:-1] + b"x")
    recipe = load_recipe(make_recipe(tmp_path, name="second"))
    with pytest.raises(DamagedFileError, match=r"base\.parquet"):
        begin_with(recipe, source)
    assert not RunFolder.of(recipe).pool(-1).exists()
