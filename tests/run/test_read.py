"""Reading a run folder."""

import json

import pytest

from pvg_hf.core.files import write_json_lines
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import load_run


def test_each_rounds_steps_figures_and_solutions_are_read(make_run, rounds_data):
    run = load_run(make_run(2))
    assert [data.round_index for data in run.rounds] == [0, 1, 2]
    assert [data.round_index for data in run.evaluated] == [0, 1]
    assert [len(data.steps) for data in run.rounds] == [39, 35, 31]
    assert run.rounds[2].solutions is None
    assert len(run.rounds[1].solutions) == len(rounds_data[1]["test"])
    assert run.rounds[0].figure("accuracy/helpful").n == 480
    assert run.rounds[0].figure("no/such/figure").n == 0
    assert run.phase_seconds()[-1, "bootstrap"] == 31.5
    assert run.is_finished("mint", 1)
    assert not run.is_finished("mint", 2)
    assert [alert["kind"] for alert in run.alerts] == ["sneaky_collapse"]


def write_metrics(folder, *lines):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_lines_of_one_step_are_merged_and_missing_values_stay_missing(make_run):
    folder = make_run(0)
    place = {"phase": "prover", "round": 0}
    write_metrics(
        folder,
        {**place, "step": 1, "prover/accuracy/helpful": 0.5, "prover/score_gap": None},
        {**place, "step": 1, "prover/heldout/accuracy": 0.7},
        {**place, "step": 2, "prover/accuracy/helpful": 0.6},
        {"phase": "verifier", "round": 0, "step": 1, "verifier/loss": 0.7},
    )
    steps = load_run(folder).rounds[0].steps.set_index("step")
    assert steps["accuracy/helpful"].tolist() == [0.5, 0.6]
    assert steps.loc[1, "heldout/accuracy"] == 0.7
    assert steps["heldout/accuracy"].isna().tolist() == [False, True]
    assert "score_gap" not in steps
    assert "verifier/loss" not in steps


def test_counts_of_a_round_are_added_up_over_its_lines(make_run):
    folder = make_run(0)
    verifier, prover = ({"phase": phase, "round": 0} for phase in ("verifier", "prover"))
    write_metrics(
        folder,
        {**verifier, "step": None, "pairs/dropped/failed": 7, "heldout_pairs/num_pairs": 2, "verifier/threshold": 0.5},
        {**verifier, "step": None, "verifier/num_cut": 1},
        {**prover, "step": 1, "prover/num_cut": 2, "prover/accuracy/helpful": 0.5},
        {**prover, "step": 3, "prover/num_cut": 3},
        {**verifier, "round": 1, "step": None, "pairs/dropped/failed": 9},
    )
    assert load_run(folder).rounds[0].counts == {
        "pairs/dropped/failed": 7,
        "heldout_pairs/num_pairs": 2,
        "verifier/num_cut": 1,
        "prover/num_cut": 5,
    }


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 3],
        lambda text: text.replace(b'"phase"', b'"phasX"'),
        lambda text: text.replace(b"prover/", b"prover\xa6"),
    ],
    ids=["cut", "another key", "no UTF-8"],
)
def test_damaged_metrics_are_named(damage, make_run):
    folder = make_run(0)
    lines = [{"phase": "prover", "round": 0, "step": step, "prover/accuracy/helpful": 0.5} for step in (1, 2)]
    write_json_lines(RunFolder(folder).metrics, lines)
    assert load_run(folder).rounds[0].steps["step"].tolist() == [1, 2]
    path = folder / "metrics.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedFileError, match="rewrites") as caught:
        load_run(folder)
    assert caught.value.path == path
