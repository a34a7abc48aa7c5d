"""Evaluations of finished rounds: choosing, storing, resuming and refusing."""

import json
import os
import shutil
import time

import pandas as pd
import pytest

from pvg_hf.config.trust import trust_recipe, write_origin
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.evaluation.best_of_n import balanced_best_of_n
from pvg_hf.experimental.judging import drawn_pool
from pvg_hf.experimental.judging.drawn_pool import DRAWN_POOL, best_of_n_curve
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.report.tables import judgement_tables
from pvg_hf.run.judgements import Judgement, judgement_folder, load_judgements
from pvg_hf.run.layout import RunFolder, partial_of
from pvg_hf.run.read import load_run

SMALL = ["best_of_n.num_samples=8", "best_of_n.num_problems=3"]


@pytest.fixture
def run(tmp_path, reference) -> RunFolder:
    """A copy of the reference run that may be changed."""
    return RunFolder(shutil.copytree(reference.root, tmp_path / "game"))


def test_every_round_is_evaluated_once_and_shown_everywhere(run, caplog):
    results = evaluate_run(run.root, only=["best_of_n"], overrides=SMALL)
    assert [(result.name, result.round_index) for result in results] == [("best_of_n", 0), ("best_of_n", 1)]
    assert list(results[0].figures) == ["2", "eligible/2", "4", "eligible/4", "8", "eligible/8"]
    assert results[0].settings == {"num_samples": 8, "num_problems": 3}
    pool = pd.read_parquet(judgement_folder(run, "best_of_n", 0) / DRAWN_POOL)
    assert pool.groupby("problem_id").size().tolist() == [8, 8, 8]
    data = load_run(run.root)
    assert data.judgements == results
    line = next(line for line in map(json.loads, run.metrics.open()) if line["phase"] == "judging")
    figure = results[0].figure("2")
    assert (line["round"], line["judging/best_of_n/2"], line["judging/best_of_n/2/n"]) == (0, figure.value, figure.n)
    table = judgement_tables(data)["best_of_n"]
    assert table.headers == ["", "round 0", "round 1"]
    assert "Balanced best-of-n on a large pool" in run.report.read_text(encoding="utf-8")
    run.report.unlink()  # as after a kill before it was written
    run.metrics.write_text("")
    os.utime(run.metrics, (0, 0))
    # The same command computes nothing again, needs no settings, and shows what is stored.
    before = [path.stat().st_mtime_ns for path in sorted(run.root.glob("judging/*/*/*"))]
    assert evaluate_run(run.root, only=["best_of_n"]) == results
    assert [path.stat().st_mtime_ns for path in sorted(run.root.glob("judging/*/*/*"))] == before
    assert "Balanced best-of-n on a large pool" in run.report.read_text(encoding="utf-8")
    assert "judging/best_of_n/2" in run.metrics.read_text()


def test_an_interrupted_evaluation_continues_to_the_same_result(run, monkeypatch):
    whole = evaluate_run(run.root, round_index=0, only=["best_of_n"], overrides=SMALL)[0]
    evaluate_run(run.root, round_index=0, only=["best_of_n"], overrides=SMALL, again=True)  # is repeatable
    shutil.rmtree(judgement_folder(run, "best_of_n", 0))
    drawn = []

    def stop_after_two(*arguments, sample=drawn_pool.sample_many, **kwargs):
        if len(drawn) == 2:
            raise KeyboardInterrupt
        drawn.append(arguments)
        return sample(*arguments, **kwargs)

    monkeypatch.setattr(drawn_pool, "sample_many", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(run.root, round_index=0, only=["best_of_n"], overrides=SMALL)
    assert not judgement_folder(run, "best_of_n", 0).exists()
    assert len(list(partial_of(judgement_folder(run, "best_of_n", 0)).glob("parts/*"))) == 2
    monkeypatch.undo()
    # Without settings: those of the unfinished result hold.
    continued = evaluate_run(run.root, round_index=0, only=["best_of_n"])[0]
    assert (continued.figures, continued.settings) == (whole.figures, whole.settings)


def test_time_between_a_kill_and_the_next_start_does_not_count(run):
    target = judgement_folder(run, "best_of_n", 0)
    evaluate_run(run.root, round_index=0, only=["best_of_n"], overrides=SMALL)
    target.rename(partial_of(target))  # as a process that was killed an hour ago, after ten seconds
    begun = time.time() - 3600.0
    write_json(partial_of(target) / "phase.json", {"num_processes": 1, "seconds": 0.0, "running_since": begun})
    for file in partial_of(target).rglob("*"):
        os.utime(file, (begun + 10.0, begun + 10.0))
    assert 10.0 < evaluate_run(run.root, round_index=0, only=["best_of_n"])[0].seconds < 3600.0


def test_other_settings_than_those_stored_are_refused(run):
    evaluate_run(run.root, round_index=0, only=["best_of_n"], overrides=SMALL)
    with pytest.raises(ValueError, match=r"best_of_n\.num_samples`: 8 before, 4 now"):
        evaluate_run(run.root, round_index=0, overrides=["best_of_n.num_samples=4"], only=["best_of_n"])
    again = evaluate_run(
        run.root, round_index=0, only=["best_of_n"], overrides=["best_of_n.num_samples=4", SMALL[1]], again=True
    )
    assert again[0].settings["num_samples"] == 4
    assert "8" not in again[0].figures


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"only": ["best"]}, "`best`.*`best_of_n`"),
        ({"only": ["best_of_n"], "round_index": 7}, "Round 7 .*round-007/verifier"),
        ({"only": ["best_of_n"], "overrides": ["best_of_n.num_sample=3"]}, r"`best_of_n\.num_sample`"),
        ({"only": ["best_of_n"], "overrides": ["best_of_n.num_samples=1"]}, r"`best_of_n\.num_samples`.*got 1"),
        ({"overrides": ["best_of_n=1"]}, "`best_of_n`.*NAME.key=value"),
        ({"overrides": ["best.num_samples=4"]}, "Unknown evaluation `best`"),
    ],
)
def test_mistakes_are_refused(reference, arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate_run(reference.root, **arguments)


def test_a_pulled_result_does_not_name_code_for_its_own_repetition(run):
    write_origin(run.root, "org/game", 1)
    trust_recipe(run.recipe, run.read_recipe())
    folder = judgement_folder(run, "attacks", 0)
    folder.mkdir(parents=True)
    stored = Judgement("attacks", 0, "", {}, {}, {"rewards": ["somebody:pays"]}, 1.0, inputs="what has changed")
    stored.write(folder)
    with pytest.raises(ValueError, match=r"`attacks\.rewards`: somebody:pays"):
        evaluate_run(run.root, round_index=0, only=["attacks"])
    assert Judgement.read(folder) == stored


def test_a_round_without_its_prover_is_left_out(run):
    shutil.rmtree(run.prover(1))
    results = evaluate_run(run.root, only=["best_of_n"], overrides=SMALL)
    assert [result.round_index for result in results] == [0]


def test_a_result_is_read_as_it_was_written(tmp_path):
    result = Judgement("best_of_n", 3, "Title", {"N": "a size"}, {"2": Figure(0.5, 0.25, 0.75, 8)}, {"size": 2}, 1.5)
    folder = judgement_folder(RunFolder(tmp_path), "best_of_n", 3)
    result.write(folder)
    assert load_judgements(RunFolder(tmp_path)) == [result]
    (folder.parent / ".round-004.partial").mkdir()
    assert load_judgements(RunFolder(tmp_path)) == [result]


def test_the_curve_counts_the_problems_that_are_eligible():
    rows = pd.DataFrame(
        {"problem_id": ["a"] * 4 + ["b"] * 2, "score": [3.0, 1, 2, 0, 1, 0], "correct": [1, 1, 0, 0, 1, 0]}
    )
    figures = best_of_n_curve(rows.astype({"correct": bool}), ["a", "b", "c"], 5)
    assert list(figures) == ["2", "eligible/2", "4", "eligible/4"]
    assert figures["2"] == balanced_best_of_n(rows.astype({"correct": bool}), 2)
    assert (figures["eligible/2"].value, figures["eligible/4"].value) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
