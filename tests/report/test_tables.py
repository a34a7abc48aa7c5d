"""The tables of the report."""

from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest

from pvg_hf import load_recipe
from pvg_hf.core.figure import EMPTY, Figure, rate
from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.role_figures import BY_ANSWER, BY_FLAWS
from pvg_hf.report.tables import (
    TABLES,
    Table,
    TableCell,
    acceptance_tables,
    count_noun,
    difficulty_table,
    diversity_table,
    duration,
    new_texts_table,
    pairs_table,
    rates_table,
    roles_table,
    rounds_table,
    scoring_counts_table,
    sources_table,
    times_table,
)
from pvg_hf.run.read import load_run


@pytest.fixture(scope="module")
def run(run_template):
    return load_run(run_template(2))


def test_the_figures_of_a_table_are_explained_once_each(run):
    table = rounds_table(run)
    explained = [heading for headings in table.terms for heading in headings.split("; ")]
    assert explained == table.headers[1:]


def test_columns_that_no_round_has_are_left_out(run):
    assert "best helpful checkpoint" not in rounds_table(run).headers
    kept = replace(run.rounds[1], figures={**run.rounds[1].figures, "accuracy/best_helpful": EMPTY})
    assert "best helpful checkpoint" in rounds_table(replace(run, rounds=[run.rounds[0], kept])).headers


def test_rounds_table_begins_with_the_base_prover(run):
    figures = {"accuracy/helpful": Figure(0.75, 0.5, 1.0, 1234), "base_accuracy/helpful": EMPTY, "score_gap": EMPTY}
    rounds = [replace(data, figures={**data.figures, **figures}) for data in run.evaluated]
    table = rounds_table(replace(run, rounds=rounds))
    assert [heading for heading, _ in table.rows] == ["base prover", "round 0", "round 1"]
    assert {len(cells) + 1 for _, cells in table.rows} == {len(table.headers)}
    assert table.rows[1][1][0] == TableCell("0.750", "[0.500, 1.000]", "n=1,234")
    assert table.rows[0][1][0].n == "n=0"


def test_failed_sneaky_solutions_are_next_to_valid_mistakes(run):
    table = rounds_table(run)
    place = table.headers.index("sneaky valid mistakes")
    assert table.headers[place + 1] == "sneaky failed"
    last = run.evaluated[-1]
    for key, cell, base in zip(
        ("valid_sneaky", "failed/sneaky"), table.rows[-1][1][place - 1 :], table.rows[0][1][place - 1 :]
    ):
        assert cell.value == f"{last.figure(key).value:.3f}"
        assert base.value == f"{run.evaluated[0].figure(f'base_{key}').value:.3f}"


def test_problems_that_are_all_solved_still_have_an_interval(run):
    problems = pd.DataFrame(
        {"problem_id": ["a", "b"], "difficulty": 2, "accuracy_helpful": 1.0, "accuracy_sneaky": 0.0}
    )
    problems["fooled"] = pd.array([False, False], dtype="boolean")
    last = replace(run.evaluated[-1], problems=problems)
    (_, cells), *_ = difficulty_table(replace(run, rounds=[last])).rows
    expected = rate(2, 2)
    assert cells[0].interval == f"[{expected.low:.3f}, {expected.high:.3f}]"


def test_diversity_table_has_a_row_per_role_and_round(run):
    table = diversity_table(run)
    assert [heading for heading, _ in table.rows] == [
        *("helpful, base", "helpful, round 0", "helpful, round 1"),
        *("sneaky, base", "sneaky, round 0", "sneaky, round 1"),
    ]
    unflawed = [
        replace(data, figures={key: value for key, value in data.figures.items() if "step_validity" not in key})
        for data in run.evaluated
    ]
    assert len(diversity_table(replace(run, rounds=unflawed)).headers) == len(table.headers) - 1


def test_sources_table_has_a_row_per_prover(run):
    table = sources_table(run)
    assert [heading for heading, _ in table.rows] == ["all", "base", "round 0, helpful", "round 0, sneaky"]
    assert {len(cells) + 1 for _, cells in table.rows} == {len(table.headers)}
    tpr = run.evaluated[-1].figure("verifier_tpr/base")
    assert table.rows[1][1][3] == TableCell(f"{tpr.value:.3f}", f"[{tpr.low:.3f}, {tpr.high:.3f}]", f"n={tpr.n:,}")
    assert sources_table(replace(run, rounds=[])).rows == []


def test_roles_table_has_the_rounds_that_had_an_earlier_prover(run):
    share = Figure(0.25, 0.2, 0.3, 80)
    flaws = {f"accepted_role/{role}/{kind}": share for role in GAME_ROLES for kind in BY_FLAWS}
    first, last = run.evaluated
    table = roles_table(replace(run, rounds=[first, replace(last, figures={**last.figures, **flaws})]))
    assert table.headers[1:5] == ["helpful, flawless", "sneaky, flawless", "helpful, one flaw", "sneaky, one flaw"]
    assert table.rows == [("round 1", [TableCell("0.250", "[0.200, 0.300]", "n=80")] * 6)]
    answers = {f"accepted_role/{role}/{kind}": share for role in GAME_ROLES for kind in BY_ANSWER}
    plain = {key: figure for key, figure in last.figures.items() if not key.startswith("accepted_role")}
    table = roles_table(replace(run, rounds=[first, replace(last, figures={**plain, **answers})]))
    assert table.headers[1:] == ["helpful, correct", "sneaky, correct", "helpful, incorrect", "sneaky, incorrect"]


def test_pairs_table_counts_exclusions_in_both_parts(run):
    table = pairs_table(run)
    assert [heading for heading, _ in table.rows[:3]] == [
        "round 0, training",
        "round 0, held-out",
        "round 1, training",
    ]
    training, heldout = (dict(zip(table.headers[1:], cells)) for _, cells in table.rows[2:4])
    found = {heading: cell.value for heading, cell in training.items()}
    assert (found["pairs"], found["solutions read"], found["failed"]) == ("1,001", "2,400", "30")
    assert found["problems without a pair"] == "7"  # 4 without a correct solution, 3 without an incorrect one
    assert found["pairs over the maximum length"] == "2"
    assert (found["no partner"], found["more than the slots"]) == ("6", "120")
    assert found["in pairs as correct, with references"] == "750"
    slots = ("slots that a round could not fill", "of them, filled by another", "of them, left empty")
    assert [found[heading] for heading in slots] == ["9", "5", "4"]
    assert found["same as another"] == "\N{EN DASH}"  # not counted in this run
    assert (heldout["pairs"].value, heldout["failed"].value) == ("100", "\N{EN DASH}")


def test_cut_table_has_the_rounds_in_which_an_input_was_cut(run):
    table = scoring_counts_table(run, "num_cut")
    assert table.headers == ["", "verifier", "prover", "mint", "evaluate"]
    assert [(heading, cells[0].value) for heading, cells in table.rows] == [("round 1", "5"), ("round 2", "10")]


def test_difficulty_table_averages_over_problems(run):
    problems = pd.DataFrame({
        "problem_id": ["a", "b", "c"],
        "difficulty": [2, 2, 3],
        "accuracy_helpful": [1.0, 0.5, None],
        "accuracy_sneaky": [0.0, 0.5, 0.25],
        "fooled": pd.array([True, None, False], dtype="boolean"),
    })  # fmt: skip
    last = replace(run.evaluated[-1], problems=problems)
    table = difficulty_table(replace(run, rounds=[last]))
    values = {heading: [(cell.value, cell.n) for cell in cells] for heading, cells in table.rows}
    assert values["difficulty 2"] == [("0.750", "n=2"), ("0.250", "n=2"), ("1.000", "n=1")]
    assert values["difficulty 3"] == [("\N{EN DASH}", "n=0"), ("0.250", "n=1"), ("0.000", "n=1")]


def test_a_task_without_difficulty_has_no_such_table(run):
    last = replace(run.evaluated[-1], problems=run.evaluated[-1].problems.drop(columns="difficulty"))
    assert difficulty_table(replace(run, rounds=[last])).rows == []
    assert difficulty_table(replace(run, rounds=[])).rows == []


def test_times_table_sums_up_each_round(run):
    table = times_table(run)
    assert table.headers == ["", "bootstrap", "verifier", "prover", "mint", "evaluate", "all"]
    rows = dict(table.rows)
    assert rows["before round 0"][0].value == rows["before round 0"][-1].value == "31.5 s"
    assert rows["round 0"][-1].value == "4 min 26 s"  # 95 + 128 + 40.5 + 3 = 266.5, to the even second
    assert rows["round 2"][2].value == "\N{EN DASH}"  # its prover phase is not over


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 00 s"), (3600, "1 h 00 min"), (7325, "2 h 02 min")],
)
def test_durations_are_written_in_hours_minutes_or_seconds(seconds, text):
    assert duration(seconds) == text


def test_a_table_with_many_columns_and_few_rows_is_turned():
    cells = [[TableCell(f"{row}.{column}") for column in range(14)] for row in range(3)]
    names = [f"figure {column}" for column in range(14)]
    turned = Table(["", *names], [(f"round {row}", cells[row]) for row in range(3)]).turned()
    assert turned.headers == ["", "round 0", "round 1", "round 2"]
    assert turned.rows == [(names[column], [cells[row][column] for row in range(3)]) for column in range(14)]
    square = Table(["", *names], [(name, cells[0]) for name in names])
    assert square.turned() == square


@pytest.mark.parametrize(("number", "text"), [(0, "0 rounds"), (1, "1 round"), (2_000, "2,000 rounds")])
def test_counted_things_are_singular_or_plural(number, text):
    assert count_noun(number, "round") == text


def test_roc_table_has_a_row_per_round_that_was_evaluated_with_it(run):
    assert [heading for heading, _ in TABLES["roc"](run).rows] == ["round 0", "round 1"]
    figures = {"test_auc": Figure(0.8, 0.7, 0.9, 600), "test_tpr_at_0.01": Figure(0.1, 0.0, 0.2, 600)}
    older, newer = replace(run.rounds[0], figures={}), replace(run.rounds[1], figures=figures)
    table = TABLES["roc"](replace(run, rounds=[older, newer]))
    assert [heading for heading, _ in table.rows] == ["round 1"]
    found = dict(zip(table.headers[1:], table.rows[0][1]))
    assert found["AUC, this prover"] == TableCell("0.800", "[0.700, 0.900]", "n=600")
    assert found["TPR at FPR 0.01"].value == "0.100"


def test_acceptance_tables_have_a_column_per_round(run):
    figures = {"accepted_flaw/wrong_sum": Figure(0.3, 0.2, 0.4, 90), "accepted_form/helpful_correct/partly": EMPTY}
    rounds = [replace(run.rounds[0], figures=figures), replace(run.rounds[1], figures={"accepted_flaw/b": EMPTY})]
    tables = acceptance_tables(replace(run, rounds=rounds))
    flaws, forms = tables
    assert flaws.headers == forms.headers == ["", "round 0", "round 1"]
    assert forms.rows[0][0] == "helpful correct, partly"
    assert [heading for heading, _ in flaws.rows] == ["b", "wrong sum"]


@pytest.mark.parametrize(
    ("source", "cell"),
    [
        # (1000 problems with a pair + 7 without) of four slots each, of which 40 are empty.
        ("prover", TableCell("0.010", n="40 of 4,028")),
        ("both", TableCell("40")),
    ],
)
def test_empty_slots_are_a_share_if_solutions_alone_fill_them(run, source, cell):
    recipe = load_recipe({**run.recipe.to_dict(), "data": {"correct_source": source, "solutions_per_problem": 4}})
    counts = Counter({
        "pairs/num_problems": 1000, "pairs/without_pair/no_correct": 4, "pairs/without_pair/no_incorrect": 3,
        "pairs/unfilled": 40,
    })  # fmt: skip
    figures = {"new_texts/helpful_correct": Figure(0.5, 0.4, 0.6, 100)}
    table = new_texts_table(
        replace(run, recipe=recipe, rounds=[replace(run.rounds[0], counts=counts, figures=figures)])
    )
    assert table.rows[0][1][-1] == cell
    assert table.rows[0][1][0] == TableCell("0.500", "[0.400, 0.600]", "n=100")


def test_rates_are_tokens_over_seconds_with_their_utilisation_on_a_known_gpu(run):
    split = {
        "writing": {"seconds": 4.0, "tokens": 8000, "flops": 8e12},
        "other": {"seconds": 1.0, "tokens": 0, "flops": 0},
    }
    event = {"event": "phase_finished", "phase": "prover", "round": 0, "seconds": 5.0, "split": split}
    events = [
        event,
        {**event, "phase": "mint", "peak_flops": 1e14},
        {**event, "phase": "evaluate", "split": {"other": split["other"]}},
    ]
    table = rates_table(replace(run, events=events))
    assert table.headers == ["", "tokens written a second", "tokens scored a second", "tokens trained a second"]
    assert {name: cells[0] for name, cells in table.rows} == {
        "round 0 prover": TableCell("2,000"),
        "round 0 mint": TableCell("2,000", "MFU 2 %"),
    }
