"""Items of each participant: blinded, balanced, drawn from a seed."""

from collections import Counter

import numpy as np
import pytest

from pvg_hf.experimental.study.items import CELL, choose_items, draw_sheet


def test_at_most_one_correct_and_one_incorrect_solution_per_problem_and_prover(solutions):
    items = choose_items(solutions, seed=0)
    assert not items.duplicated(["problem_id", *CELL]).any()
    assert len(items) == len(solutions) / 2
    assert items["item"].is_unique


def test_a_right_answer_by_a_flawed_step_is_not_judged(solutions):
    flawed = solutions.assign(num_flaws=solutions["num_flaws"].mask(solutions["sample"] == 0, 1.0))
    items = choose_items(flawed, seed=0)
    assert set(items.loc[items["correct"], "sample"]) == {1}
    assert set(choose_items(solutions.assign(num_flaws=None), seed=0)["correct"]) == {True, False}


def test_the_draw_follows_from_the_seed_and_not_from_the_order_of_the_rows(solutions):
    first, again, other = (choose_items(solutions, seed) for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first["sample"].equals(other["sample"])
    assert set(first["item"]).isdisjoint(other["item"])


@pytest.mark.parametrize("num_solutions", [8, 16])
def test_a_sheet_is_balanced_and_holds_no_problem_twice(solutions, num_solutions):
    items = choose_items(solutions, seed=0)
    sheet = draw_sheet(items, num_solutions, {}, np.random.default_rng(0))
    assert sheet["problem_id"].is_unique
    assert Counter(sheet.groupby(CELL).size()) == {num_solutions // 8: 8}  # two rounds, two roles, right and wrong


def test_a_sheet_is_no_longer_than_the_problems_allow(solutions):
    items = choose_items(solutions, seed=0)
    sheet = draw_sheet(items, 1000, {}, np.random.default_rng(0))
    assert len(sheet) == items["problem_id"].nunique()
    assert abs(2 * sheet["correct"].sum() - len(sheet)) <= 1


def test_the_least_often_given_solutions_are_given_next(solutions):
    items = choose_items(solutions, seed=0)
    num_given: Counter[str] = Counter()
    for participant in range(len(items) // 8):
        num_given.update(draw_sheet(items, 8, num_given, np.random.default_rng(participant))["item"])
    counts = [num_given[item] for item in items["item"]]
    assert max(counts) <= 2  # a problem that is on the sheet already may put an item off for a while
    assert sum(counts) == len(items)


def test_the_order_of_a_sheet_is_random(solutions):
    items = choose_items(solutions, seed=0)
    orders = {tuple(draw_sheet(items, 16, {}, np.random.default_rng(seed))["correct"]) for seed in range(5)}
    assert len(orders) > 1
