"""The written evaluations that the report shows."""

import json

import pandas as pd
import pytest

from pvg_hf.config import load_recipe
from pvg_hf.core.figure import Figure
from pvg_hf.report.written_evaluations import has_hallucination, sample_evaluations
from pvg_hf.run.read import RoundData, RunData


@pytest.mark.parametrize(
    ("issues", "expected"),
    [
        ([], False),
        ([["Line 1 is wrong.", True]], False),
        ([["Line 2 calls a true statement false.", True]], False),
        ([["Line 3 is wrong.", None]], False),  # unknown
        ([["Line 1 is wrong.", True], ["Line 2 is wrong.", False]], True),
    ],
)
def test_an_issue_that_the_proof_does_not_have_is_a_hallucination(issues, expected):
    assert has_hallucination(json.dumps(issues)) == expected


def evaluation(proof, reference, issues):
    texts = {"problem": "p", "role": "helpful", "solution": proof, "evaluation": "\n".join(text for text, _ in issues)}
    return {**texts, "reference": reference, "predicted": 1.0, "issues": json.dumps(issues)}


def test_hallucinations_come_first_of_each_true_score(tmp_path):
    rows = pd.DataFrame(
        [
            evaluation("quotes", 0.0, [["This says false.", True]]),
            evaluation("invents", 0.0, [["Line 2 is wrong.", False]]),
            evaluation("fine", 1.0, []),
        ]
    )
    figures = {"evaluations/accuracy": Figure(0.5, None, None, 3)}
    data = RoundData(0, pd.DataFrame(), figures, None, None, evaluations=rows)
    shown = sample_evaluations(RunData(load_recipe({"task": {"name": "arithmetic"}}), "", {}, [], [data]))
    assert [example.proof for example in shown if example.reference == 0] == ["invents", "quotes"]
    assert {example.proof: [(line.text, line.note or "") for line in example.lines] for example in shown} == {
        "invents": [("Line 2 is wrong.", "hallucinated")],
        "quotes": [("This says false.", "true")],
        "fine": [("", "")],
    }
