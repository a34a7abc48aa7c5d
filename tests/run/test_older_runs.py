"""A run started by an older version of the package is resumed by this one."""

import tarfile
from pathlib import Path

import pandas as pd
import pytest

from pvg_hf import load_recipe, play
from pvg_hf.core.integrity import find_damaged, read_json, read_json_lines
from pvg_hf.run.layout import RunFolder

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture
def old_run(tmp_path, monkeypatch) -> RunFolder:
    """
    A game of two rounds played by commit 9588d28, whose modules had other names. It was killed in the second prover
    phase, at the fourth of its steps; the last complete checkpoint is that of the second.
    """
    with tarfile.open(SUPPORT / "older_runs" / "before-redesign.tar.gz") as archive:
        archive.extractall(tmp_path / "runs", filter="data")
    monkeypatch.chdir(tmp_path)  # the recipe's `output_dir` is `runs`
    monkeypatch.syspath_prepend(SUPPORT)  # it names its task `recall_task:RecallTask`
    return RunFolder(Path("runs/game"))


@pytest.mark.slow
def test_an_older_run_is_resumed_from_its_last_checkpoint_and_finished(old_run):
    finished = {path: path.read_bytes() for path in old_run.root.glob("[!.]*/[!.]*/*") if path.is_file()}
    checkpoint = old_run.root / "prover" / ".round-001.partial" / "checkpoints" / "checkpoint-2"
    steps = read_json(checkpoint / "trainer_state.json")["log_history"]
    play(load_recipe(old_run.recipe))
    assert {path: path.read_bytes() for path in finished} == finished
    resumed = [line for line in read_json_lines(old_run.prover(1) / "metrics.jsonl") if "prover/loss" in line]
    assert [line["prover/loss"] for line in resumed][:2] == [line["loss"] for line in steps if "loss" in line]
    assert len(resumed) == 4
    assert len(pd.read_parquet(old_run.evaluation(1) / "problems.parquet")) > 0
    assert [*find_damaged(old_run.evaluation(0)), *find_damaged(old_run.prover(1))] == []
