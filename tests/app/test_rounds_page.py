"""The rounds page shows later evaluations as tables."""

from dataclasses import replace

from pvg_hf.app.rounds_page import show_rounds
from pvg_hf.core.figure import Figure
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.read import load_run


def test_later_evaluations_are_tables(arithmetic_run):
    run = load_run(arithmetic_run)
    figures = {"explained/all": Figure(0.123, 0.05, 0.2, 77)}
    judged = [
        Judgement("style", k, "Style in the scores", {"explained": "share explained"}, figures, {}, 0.0)
        for k in (0, 1)
    ]
    without, shown = (show_rounds(replace(run, judgements=found)) for found in ([], judged))
    assert "Style in the scores" not in without
    table = shown[shown.index("Style in the scores") :]
    assert "0.123" in table
    assert "77" in table
    assert "share explained" in table
