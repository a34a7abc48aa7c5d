"""Accuracy and time, by round and role."""

import pytest

from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.experimental.study.results import plot_study, study_results


def answer(correct, judgment, *, who="ann", problem="p", seconds=20.0, role="helpful", round_index=0):
    return {
        "participant": who,
        "problem_id": problem,
        "round_index": round_index,
        "role": role,
        "correct": correct,
        "judgment": judgment,
        "seconds": seconds,
    }


def test_results_by_hand():
    rows = [
        answer(True, "correct", problem="a", seconds=10.0),
        answer(True, "flawed", problem="b", seconds=20.0),
        answer(False, "flawed", problem="c", seconds=30.0),
        answer(False, "time_ran_out", problem="d", seconds=45.0),
        answer(False, "time_ran_out", role="sneaky"),
    ]
    helpful, sneaky = study_results(rows).to_dict("records")
    assert (helpful["round_index"], helpful["role"], helpful["num_participants"]) == (0, "helpful", 1)
    assert (helpful["accuracy"].value, helpful["accuracy"].n) == (0.5, 4)
    assert (helpful["accuracy_on_correct"].value, helpful["accuracy_on_flawed"].value) == (0.5, 0.5)
    assert (helpful["seconds"].value, helpful["seconds"].n) == (20.0, 3)
    assert helpful["time_ran_out"].value == 0.25
    assert (sneaky["accuracy"].value, sneaky["accuracy_on_correct"].n, sneaky["seconds"].value) == (0.0, 0, None)


def test_people_who_agree_with_themselves_widen_the_interval():
    people = {"ann": "correct", "bob": "flawed"}
    rows = [answer(True, said, who=who, problem=f"p{k}") for who, said in people.items() for k in range(30)]
    (found,) = study_results(rows).to_dict("records")
    alone = rate_by_problem([row["judgment"] == "correct" for row in rows], [row["problem_id"] for row in rows])
    assert found["accuracy"].value == alone.value == 0.5
    assert found["accuracy"].high - found["accuracy"].low > 2 * (alone.high - alone.low)


def test_a_study_without_answers_has_no_results():
    results = study_results([])
    assert results.empty
    assert plot_study(results, 45.0) is None


@pytest.mark.parametrize("num_rounds", [1, 3])
def test_the_plot_has_a_line_for_each_role(num_rounds):
    rows = [
        answer(True, "correct", problem=f"p{k}", round_index=index, role=role, seconds=10.0 + k)
        for index in range(-1, num_rounds)
        for role in ("helpful", "sneaky")
        for k in range(3)
    ]
    plot = plot_study(study_results(rows), 45.0)
    accuracy, time = plot.canvas.axes
    assert [label.get_text() for label in accuracy.get_xticklabels()] == ["base", *map(str, range(num_rounds))]
    assert accuracy.get_legend_handles_labels()[1] == ["helpful", "sneaky"]
    assert time.get_ylim() == (0, 45)
    assert plot.caption.startswith(f"{6 * (num_rounds + 1)} answers")
