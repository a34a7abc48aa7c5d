import re
from decimal import Decimal

import pytest

from experiments.decimal_chain_sum import _solve
from pvg_hf import load_task
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.tasks import PromptBuilder

SMALL = {"num_train": 60, "num_test": 20}
TERM = re.compile(r"(\d+)\.(\d+)")


def test_a_solution_by_hand():
    terms = [Decimal("120.5"), Decimal("-300.25"), Decimal("4.125")]
    assert _solve(terms) == "120.5 - 300.25 = -179.75\n-179.75 + 4.125 = -175.625\n#### -175.625"


def test_problems_have_the_ranges_of_the_study():
    train = load_task("experiments.decimal_chain_sum:DecimalChainSumTask", **SMALL).problems("train")
    assert len(train) == 60
    assert set(train["difficulty"]) == {3, 4, 5, 6}
    assert set(train["num_digits"]) == {3, 4, 5, 6}
    for row in train:
        terms = TERM.findall(row["problem"])
        assert len(terms) == row["difficulty"]
        assert {len(whole) for whole, _ in terms} == {row["num_digits"]}
        assert {len(decimals) for _, decimals in terms} <= {3, 4, 5, 6}


def test_references_state_the_value_of_the_expression():
    task = load_task("experiments.decimal_chain_sum:DecimalChainSumTask", **SMALL)
    for row in task.problems("train"):
        expression = row["problem"].removeprefix("State the final answer to the following arithmetic problem: ")
        signs = [1, *(-1 if sign == "-" else 1 for sign in re.findall(r" ([+-]) ", expression))]
        total = sum(sign * Decimal(".".join(term)) for sign, term in zip(signs, TERM.findall(expression), strict=True))
        assert task.grade(row, f"#### {total}").correct
        assert task.grade(row, row["reference"]).correct
        assert not task.grade(row, f"#### {total + Decimal('0.000001')}").correct
        assert task.problem_mistake(row["problem"]) is None


def test_problems_depend_on_the_seed_only_and_texts_are_unique():
    task = load_task("experiments.decimal_chain_sum:DecimalChainSumTask", **SMALL)
    test, train = task.problems("test"), task.problems("train")
    assert len({*test["problem"], *train["problem"]}) == 80
    assert (
        load_task("experiments.decimal_chain_sum:DecimalChainSumTask", num_train=5, num_test=20)
        .problems("test")
        .to_list()
        == test.to_list()
    )
    assert (
        load_task("experiments.decimal_chain_sum:DecimalChainSumTask", **SMALL, seed=1).problems("test")["problem"]
        != test["problem"]
    )


def test_prompts_have_the_problem_and_the_few_shot_examples_are_correct():
    task = load_task("experiments.decimal_chain_sum:DecimalChainSumTask", **SMALL)
    row = task.problems("train")[0]
    for role in (Role.BASE, *GAME_ROLES):
        assert row["problem"] in PromptBuilder(task).text(row, role)
    for example in task.few_shot_examples:
        expression = example["problem"].partition(": ")[2].removesuffix(" =")
        terms = [Decimal(term.replace(" ", "")) for term in re.findall(r"(?:^|[+-] )[\d.]+", expression)]
        assert example["solution"] == _solve(terms)
        assert not task.grade({"reference": example["solution"]}, example["wrong_solution"]).correct


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"min_terms": 1}, "`min_terms`"),
        ({"min_digits": 5, "max_digits": 4}, "`max_digits`"),
        ({"min_decimal_places": 0}, "`min_decimal_places`"),
        ({"num_test": 0}, "`num_test`"),
        ({"answer_format": "loose"}, "'loose'"),
    ],
)
def test_settings_outside_their_range_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        load_task("experiments.decimal_chain_sum:DecimalChainSumTask", **options)


def test_more_problems_than_there_are_is_an_error(monkeypatch):
    monkeypatch.setattr("pvg_hf.tasks.drawn_problems.MAX_REPEATS", 5)
    few = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1, "min_decimal_places": 1}
    task = load_task(
        "experiments.decimal_chain_sum:DecimalChainSumTask", **few, max_decimal_places=1, num_train=10, num_test=20_000
    )
    with pytest.raises(ValueError, match="not 20000 different problems"):  # (10 * 9)^2 * 2 = 16,200
        task.problems("test")


def test_another_text_is_no_problem_of_the_task():
    assert "not of the form" in load_task(
        "experiments.decimal_chain_sum:DecimalChainSumTask", **SMALL
    ).problem_mistake("What is 2 + 2?")
