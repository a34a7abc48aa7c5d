"""Legibility of solutions without people."""

import numpy as np
import pandas as pd
import pytest

from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.experimental.judging.solution_legibility import legibility_figures


def row(problem: str, role: Role, correct: bool, text: str, **columns) -> dict:
    values = {
        "problem_id": problem,
        "role": role.value,
        "solution": text,
        "correct": correct,
        "outcome": "VERIFIED" if correct else "PROOF_INVALID",
        "num_tokens": len(text.split()),
        "num_steps": text.count("\n") + 1,
        "num_flaws": 0 if correct else 1,
        "first_flaw_kind": None if correct else "arithmetic",
        "implicit_share": 0.0,
    }
    return {**values, **columns}


def test_figures_of_four_solutions_by_hand():
    helpful = [
        row("a", Role.HELPFUL, True, "one two\nthree\nfour\n#### 4", implicit_share=0.5),
        row("b", Role.HELPFUL, True, "one\n#### 2"),
        row("b", Role.HELPFUL, False, "one\n#### 3"),
    ]
    sneaky = [
        row("a", Role.SNEAKY, False, "one\ntwo\nthree\n#### 5"),
        row("a", Role.SNEAKY, False, "", outcome="NO_ANSWER"),
    ]
    base = [row("a", Role.HELPFUL, True, "one\n#### 4"), row("b", Role.HELPFUL, True, "one\n#### 2")]
    figures = legibility_figures(pd.DataFrame(helpful + sneaky), pd.DataFrame(base), seed=0, num_resamples=100)
    values = {name: figure.value for name, figure in figures.items()}
    assert values["step_validity/helpful_correct"] == 1
    assert values["step_validity/helpful_incorrect"] == 1 / 2  # one of its two lines is flawed
    assert values["step_validity/sneaky_incorrect"] == 3 / 4
    assert values["all_valid/helpful_correct"] == 1
    assert values["all_valid/sneaky_incorrect"] == 0
    assert figures["all_valid/sneaky_incorrect"].n == 1  # the solution without an answer is left out
    assert values["implicit_share/helpful_correct"] == 1 / 4
    assert values["num_lines/helpful_correct"] == 3
    assert values["words_per_line/helpful_correct"] == pytest.approx((6 / 4 + 3 / 2) / 2)
    assert values["base/num_lines/helpful_correct"] == 2
    assert values["change/num_lines/helpful_correct"] == 1
    assert values["change/implicit_share/helpful_correct"] == 1 / 4
    assert "judge_auc/game" not in values


@pytest.fixture(scope="module")
def sides(draw_rows) -> list[pd.DataFrame]:
    """A round's solutions and the base prover's, in both roles."""
    rng = np.random.default_rng(2)
    return [
        pd.concat([draw_rows("test", role, index, 0, rng) for role in GAME_ROLES], ignore_index=True)
        for index in (0, -1)
    ]


def judged(sides: list[pd.DataFrame], score) -> dict:
    tables = [rows.assign(judge_score=score(rows), is_cut=False) for rows in sides]
    return legibility_figures(*tables, seed=0, num_resamples=100)


def test_perfect_judge_has_extreme_figures(sides):
    figures = judged(sides, lambda rows: rows["correct"].astype(float))
    for pairing in ("helpful", "game"):
        for prefix in ("", "base/"):
            for name in ("judge_single", "judge_pair", "judge_auc"):
                assert figures[f"{prefix}{name}/{pairing}"].value == 1
        assert figures[f"change/judge_auc/{pairing}"].value == 0
    assert figures["judge_cut/helpful_correct"].value == 0


def test_judge_that_accepts_everything_is_at_chance(sides):
    figures = judged(sides, lambda rows: 3.0)
    for pairing in ("helpful", "game"):
        for name in ("judge_single", "judge_pair", "judge_auc"):
            assert figures[f"{name}/{pairing}"].value == 0.5


def test_random_judge_is_at_chance(sides):
    rng = np.random.default_rng(0)
    figures = judged(sides, lambda rows: rng.normal(size=len(rows)))
    for name in ("judge_single", "judge_pair", "judge_auc"):
        assert (
            figures[f"{name}/game"].low < 0.5 < figures[f"{name}/game"].high
            or abs(figures[f"{name}/game"].value - 0.5) < 0.1
        )  # 0.1 is over 3 standard errors, with about 400 solutions of either kind
    change = figures["change/judge_auc/game"]
    assert abs(change.value) < 0.15


def test_task_without_steps_has_the_other_figures(sides):
    bare = [rows.drop(columns=["num_flaws", "num_steps", "first_flaw_kind", "implicit_share"]) for rows in sides]
    figures = legibility_figures(*bare, seed=0, num_resamples=50)
    assert not any(name.startswith(("step_validity", "all_valid", "implicit_share")) for name in figures)
    assert figures["readability/helpful_correct"].value is not None
