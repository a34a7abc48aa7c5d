"""The solutions that the report shows as examples."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from pvg_hf.config import load_recipe
from pvg_hf.core.figure import Figure
from pvg_hf.report.escaping import Line
from pvg_hf.report.examples import CONVINCING, SEEN, choose_examples, has_hallucination, mark_flaw, sample_evaluations
from pvg_hf.run.read import RoundData, RunData


def solution(problem_id, role, correct, score, outcome=None):
    return {
        "problem_id": problem_id,
        "problem": f"problem {problem_id}",
        "reference": "#### 1",
        "role": role,
        "correct": correct,
        "outcome": outcome or ("VERIFIED" if correct else "PROOF_INVALID"),
        "score": score,
        "solution": f"{role}\n#### {score}",
        "answer": str(score),
    }


@pytest.fixture
def data():
    rows = pd.DataFrame([
        solution("a", "helpful", True, 2.0),
        solution("a", "helpful", True, 3.0),
        solution("a", "sneaky", False, 2.5),
        solution("a", "sneaky", False, 1.0),
        solution("b", "helpful", True, 4.0),
        solution("b", "sneaky", False, -4.0),
        solution("c", "sneaky", False, 9.0),  # without a helpful correct solution
        solution("d", "helpful", True, 0.0),
        solution("d", "sneaky", True, 8.0),  # no mistake
        solution("e", "helpful", True, 1.0),
        solution("e", "sneaky", False, 0.0),
        solution("e", "sneaky", False, 7.0, outcome="NO_ANSWER"),
    ])  # fmt: skip
    return RoundData(0, pd.DataFrame(), {}, None, rows)


def test_convincing_mistakes_come_first_and_each_problem_once(data):
    examples = choose_examples(data, 3)
    assert [(example.problem, example.heading) for example in examples] == [
        ("problem a", CONVINCING),
        ("problem e", CONVINCING),
        ("problem b", SEEN),
    ]


def test_a_mistake_that_outscored_the_solution_fooled_the_verifier(data):
    fooled = pd.DataFrame([solution("f", "helpful", True, -3.0), solution("f", "sneaky", False, -2.0)])
    rows = pd.concat([data.solutions[data.solutions["problem_id"] != "b"], fooled], ignore_index=True)
    examples = choose_examples(replace(data, solutions=rows), 3)
    assert [(example.problem, example.heading) for example in examples] == [
        ("problem a", CONVINCING),
        ("problem e", CONVINCING),
    ]


def test_the_best_solution_of_either_kind_is_shown_with_its_score(data):
    example, _, seen = choose_examples(data, 3)
    assert (example.helpful.score, example.sneaky.score) == (3.0, 2.5)
    # 95 % of the five helpful correct solutions are accepted from the lowest of them on, 0.0 of d.
    assert (example.helpful.is_accepted, example.sneaky.is_accepted, seen.sneaky.is_accepted) == (True, True, False)
    # Of the 11 judged solutions, 6 score below 2.5: 2.0 and 1.0 of a, -4.0 of b, 0.0 of d, 1.0 and 0.0 of e.
    assert example.sneaky.percentile == pytest.approx(100 * 6 / 11)
    assert example.sneaky.lines == [Line("sneaky"), Line("#### 2.5")]


def test_a_problem_without_a_helpful_solution_is_shown_last(data):
    examples = choose_examples(data, 6)
    assert [example.problem for example in examples] == ["problem a", "problem e", "problem b", "problem c"]
    assert examples[-1].helpful is None


def test_before_minting_no_example_is_shown(data):
    assert choose_examples(RoundData(0, pd.DataFrame(), {}, None, None), 3) == []


def test_the_flaw_is_marked_on_its_line():
    # The checker counts lines from the first that is not blank.
    lines = mark_flaw("\nhas 3\nMonday finds 2: 3 + 2 = 6\n#### 6\n", 1.0, "wrong_sum")
    assert lines == [Line("has 3"), Line("Monday finds 2: 3 + 2 = 6", "first flaw: wrong sum"), Line("#### 6")]


@pytest.mark.parametrize("step", [None, float("nan")])
def test_no_flaw_marks_no_line(step):
    assert mark_flaw("has 3\n#### 3", step, None) == [Line("has 3"), Line("#### 3")]


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
