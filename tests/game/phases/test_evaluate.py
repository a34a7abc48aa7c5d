"""The line that a round's evaluation leaves in the log and in the state of the run."""

import pytest

from pvg_hf.core.figure import Figure
from pvg_hf.game.phases.evaluate import _summarize
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import RoundData


@pytest.mark.parametrize(
    ("pairs", "end"),
    [
        (Figure(0.72, 0.68, 0.76, 900), ""),
        (Figure(0.425, 0.371, 0.481, 900), "; not as hoped: Verifier 0 on its own prover"),
    ],
    ids=["holds", "below chance"],
)
def test_the_line_has_the_verifier_on_its_own_prover_and_what_is_not_as_hoped(pairs, end, tmp_path):
    figures = {
        "accuracy/helpful": Figure(0.85, 0.81, 0.88, 600),
        "accuracy/sneaky": Figure(0.15, 0.12, 0.19, 600),
        "test_pair_accuracy": pairs,
        "pools/accepted/round-000/round-000": Figure(0.6, 0.55, 0.65, 500),
        "soundness": Figure(0.9, 0.88, 0.92, 500),  # at the verifier's own threshold, so that it is not in the line
    }
    assert (
        _summarize(RunFolder(tmp_path), RoundData(0, figures=figures))
        == "helpful accuracy 0.85 [0.81, 0.88] n=600, sneaky accuracy 0.15 [0.12, 0.19] n=600; the verifier on its"
        f" own prover: pair accuracy {pairs}, accepts 0.60 [0.55, 0.65] n=500 of the sneaky mistakes at 95 %"
        f" completeness{end}"
    )
