"""The report's tables about programs."""

import pandas as pd
import pytest

from pvg_hf.config import Recipe
from pvg_hf.core.figure import Figure
from pvg_hf.experimental.programs.program_tables import (
    MAX_PROBLEMS,
    program_problems_table,
    program_tables,
    sandbox_table,
)
from pvg_hf.run.read import RoundData, RunData

USE = {"programs": 12, "cache_hits": 3, "seconds": 1.25, "cases/passed": 700, "cases/wrong": 20}


def run_of(
    figures: dict[str, float], problems: pd.DataFrame | None = None, events: list[dict] | None = None
) -> RunData:
    known = {key: Figure(value, None, None, 8) for key, value in figures.items()}
    return RunData(Recipe(), "", {}, events or [], [RoundData(0, pd.DataFrame(), known, problems, None)])


def values(table) -> dict[str, list[str]]:
    return {heading: [cell.value for cell in cells] for heading, cells in table.rows}


def test_certificates_and_tests_have_a_row_per_role_and_round():
    run = run_of({
        "certificate_rate/sneaky": 0.5,
        "hidden_mistake/sneaky": 0.25,
        "unrepeatable/sneaky": 0.0625,
        "tests/sneaky/wrong": 0.125,
        "base_certificate_rate/sneaky": 1.0,
    })  # fmt: skip
    tables = program_tables(run)
    assert list(tables) == ["Certificates and tests", "Outcomes of the tests"]
    dash = "\N{EN DASH}"
    assert values(tables["Certificates and tests"]) == {
        "sneaky, base": ["1.000", dash, dash, dash, dash],
        "sneaky, round 0": ["0.500", "0.250", "0.062", dash, dash],
    }
    assert values(tables["Outcomes of the tests"]) == {"sneaky, round 0": [dash, "0.125", dash, dash, dash]}


def test_inputs_of_provers_have_a_table_of_their_own():
    table = program_tables(run_of({"proposed_input/sneaky/invalid": 0.5, "certified_by_prover/sneaky": 0.25}))
    assert list(table) == ["Inputs that provers proposed"]
    dash = "\N{EN DASH}"
    assert values(table["Inputs that provers proposed"]) == {"sneaky, round 0": [dash, "0.500", dash, dash, "0.250"]}


def test_similarity_has_a_row_per_kind_of_program():
    run = run_of({"similarity/sneaky_wrong": 0.75, "similarity_quartile/sneaky_wrong/0.5": 0.875})
    dash = "\N{EN DASH}"
    table = program_tables(run)["Similarity to the nearest honest program"]
    assert values(table) == {"sneaky certified wrong, round 0": ["0.750", dash, "0.875", dash]}


@pytest.mark.parametrize("problems", [None, pd.DataFrame({"problem_id": ["a"], "fooled": [True]})])
def test_a_task_without_programs_has_none_of_these_tables(problems):
    run = run_of({"accuracy/helpful": 0.5}, problems)
    assert program_tables(run) == {}
    assert program_problems_table(run) is None
    assert sandbox_table(run).rows == []


def test_problems_with_the_most_certified_mistakes_come_first():
    number = MAX_PROBLEMS + 5
    columns = (
        "visible_pass_rate_sneaky",
        "hidden_pass_rate_sneaky",
        "similarity_sneaky",
        "best_score_sneaky_incorrect",
    )
    problems = pd.DataFrame({
        "problem_id": [f"p{k:02}" for k in range(number)],
        "certified_wrong_sneaky": [k / number for k in range(number)],
        **{name: [None] * number for name in (*columns, "best_score_helpful_correct", "accuracy_helpful")},
    })  # fmt: skip
    rows = program_problems_table(run_of({"x": 0.0}, problems)).rows
    assert [heading for heading, _ in rows[:2]] == ["p44", "p43"]
    assert len(rows) == MAX_PROBLEMS


def test_phases_that_ran_programs_are_listed():
    events = [
        {"event": "phase_finished", "phase": "bootstrap", "round": None, "seconds": 9.0, "task_use": USE},
        {"event": "phase_finished", "phase": "verifier", "round": 0, "seconds": 9.0},
        {"event": "phase_finished", "phase": "mint", "round": 0, "seconds": 9.0, "task_use": USE},
    ]
    table = sandbox_table(run_of({}, events=events))
    expected = ["1.2", "12", "3", "0", "700", "20", "0", "0", "0"]
    assert values(table) == {"bootstrap": expected, "round 0 mint": expected}
