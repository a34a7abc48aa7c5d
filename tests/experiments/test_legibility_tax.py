"""The legibility tax: the amount of training, the recipe of the control, the comparison and its table."""

import shutil

import pandas as pd
import pytest

from experiments.legibility_tax import (
    CONTRASTS,
    SIDES,
    correctness_only_recipe,
    count_helpful_solutions,
    tax_figures,
    tax_table,
)
from pvg_hf.experimental.judging.judged_round import JudgedRun
from pvg_hf.experimental.judging.run_evaluations import evaluate_run
from pvg_hf.run.judgements import Judgement
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.phase_record import seal_copy


@pytest.fixture
def run(tmp_path, arithmetic_run) -> RunFolder:
    """
    A copy of a run that may be changed: two rounds of two steps, each with 2 prompts x 2 solutions for both roles.
    """
    return RunFolder(shutil.copytree(arithmetic_run, tmp_path / "small"))


def rewrite_recipe(run: RunFolder, old: str, new: str) -> JudgedRun:
    text = run.recipe.read_text(encoding="utf-8")
    assert old in text
    body = text.replace(old, new).partition("\n")[2]  # without the digest of the first line
    run.recipe.write_text(body, encoding="utf-8")
    seal_copy(run)
    return JudgedRun.open(run.root)


def test_a_shared_prover_learns_from_half_of_the_solutions(run):
    judged = JudgedRun.open(run.root).round(1)
    assert judged.recipe.prover.roles == "shared"
    assert (
        count_helpful_solutions(judged) == 2 * 2 * 2 // 2
    )  # 2 steps of 2 prompts x 2 solutions, half of them helpful


@pytest.mark.parametrize(("init", "number"), [("base", 4), ("previous", 8)])
def test_solutions_are_counted_since_the_weights_were_the_bases(run, init, number):
    if init == "previous":
        rewrite_recipe(run, "init: base", "init: previous")
    assert count_helpful_solutions(JudgedRun.open(run.root).round(1)) == number


def test_a_prover_that_was_not_trained_to_help_is_refused(run):
    judged = rewrite_recipe(run, "roles: shared", "roles: sneaky_only").round(1)
    with pytest.raises(ValueError, match=r"round 1 was not trained \(`prover.roles: sneaky_only`\)"):
        count_helpful_solutions(judged)


def test_the_control_differs_from_the_round_in_what_is_compared_only(run):
    judged = JudgedRun.open(run.root).round(1)
    control = correctness_only_recipe(judged, 9)
    assert (control.prover.reward, control.prover.roles, control.prover.init) == (
        "correctness_only",
        "helpful_only",
        "base",
    )
    assert control.prover.max_steps == 3  # 9 solutions are 3 batches of 2 x 2, rounded up
    assert (control.num_rounds, control.seed, control.stopping.rule) == (1, judged.recipe.seed, "max_steps")
    same = ("task", "split", "bootstrap", "verifier", "mint")
    assert [getattr(control, key) for key in same] == [getattr(judged.recipe, key) for key in same]
    assert control.prover.learning_rate == judged.recipe.prover.learning_rate


def solutions(role: str, correct: list[bool], *, num_flaws: int, text: str) -> list[dict]:
    row = {"role": role, "solution": text, "num_tokens": len(text), "num_steps": 4, "num_flaws": num_flaws}
    row |= {"implicit_share": 0.0, "is_cut": False, "first_flaw_kind": None}
    return [
        {
            **row,
            "problem_id": str(k),
            "correct": is_correct,
            "outcome": "verified" if is_correct else "incorrect",
            "judge_score": float(is_correct),
        }
        for k, is_correct in enumerate(correct)
    ]


def test_measures_and_differences_by_hand():
    sneaky = solutions("sneaky", [False] * 4, num_flaws=1, text="aaaa")
    sides = {
        "game": solutions("helpful", [True, True, True, False], num_flaws=0, text="a\na\na"),
        "correctness_only": solutions("helpful", [True] * 4, num_flaws=2, text="a"),
        "base": solutions("helpful", [True, False, False, False], num_flaws=1, text="a\na"),
    }
    figures = tax_figures(
        {name: pd.DataFrame(rows + sneaky) for name, rows in sides.items()}, seed=0, num_resamples=50
    )
    assert [figures[f"accuracy/{side}"].value for side in SIDES] == [0.75, 1.0, 0.25]
    assert [figures[f"step_validity/{side}"].value for side in SIDES] == [1.0, 0.5, 0.75]
    assert [figures[f"num_lines/{side}"].value for side in SIDES] == [3.0, 1.0, 2.0]
    accuracy = {pair: figures[f"accuracy/{pair[0]}_less_{pair[1]}"].value for pair in CONTRASTS}
    assert list(accuracy.values()) == pytest.approx([-0.25, 0.75, 0.5])
    validity = {pair: figures[f"step_validity/{pair[0]}_less_{pair[1]}"].value for pair in CONTRASTS}
    assert list(validity.values()) == pytest.approx([0.5, -0.25, 0.25])
    assert figures["judge_auc/sneaky_mistakes/game"].value == 1.0
    table = tax_table(Judgement("legibility_tax", 0, "", {}, figures, {}, 0.0)).splitlines()
    assert table[0].startswith("|  | game | correctness only | base | game less correctness only |")
    assert table[2].startswith("| accuracy | 0.750 [")


def test_the_control_is_trained_once_and_compared(run):
    (result,) = evaluate_run(run.root, round_index=1, only=["legibility_tax"])
    assert result.figure("num_solutions/game").value == result.figure("num_solutions/correctness_only").value == 4
    assert result.figure("accuracy/base").n == result.figure("accuracy/correctness_only").n == 36  # 12 problems x 3
    place = run.root / "judging" / "legibility_tax" / "correctness-only-4"
    before = (place / "prover" / "round-000" / "phase.json").stat().st_mtime_ns
    (again,) = evaluate_run(run.root, round_index=1, only=["legibility_tax"], again=True)
    assert again.figures == result.figures
    assert (place / "prover" / "round-000" / "phase.json").stat().st_mtime_ns == before
