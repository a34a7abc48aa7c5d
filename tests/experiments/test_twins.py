"""A structured checker compared with random false positives."""

import pandas as pd
import pytest

from experiments.twins import RANDOM, STRUCTURED, false_positives, play_twins, write_twins
from pvg_hf import load_recipe

CHECKER = {"applies_to": "both", "checker": {"base": "tests.support.eights:takes_eight", "noise_enabled": False}}


@pytest.fixture(scope="module")
def twins(make_recipe, tmp_path_factory):
    recipe = load_recipe(make_recipe(tmp_path_factory.mktemp("twins"), name="eights", num_rounds=1, noise=CHECKER))
    return recipe, play_twins(recipe, seed=0)


def test_the_random_checker_errs_as_often_on_the_bases_solutions(twins):
    _, pair = twins
    structured, random = (pair.folders[kind] for kind in (STRUCTURED, RANDOM))
    rows = pd.read_parquet(structured.pool(-1) / "base.parquet")
    wrong = rows[(rows["part"] == "verifier") & (rows["outcome"] == "PROOF_INVALID")]
    assert pair.rate == pytest.approx((wrong["answer"] == "8").mean())  # worked from the texts, not from the labels
    told = load_recipe(random.recipe).noise
    assert told.checker.tiers.balanced.spurious_pass == pair.rate
    assert told.applies_to == "both"
    # Each text is accepted by itself at the rate p, so that with m_i solutions of equal text the share's variance is
    # p (1 - p) sum(m_i^2) / n^2: within four standard errors.
    found, alike = false_positives(random, -1), wrong.groupby(["problem_id", "solution"]).size()
    assert found.n == len(wrong) == alike.sum()
    error = (pair.rate * (1 - pair.rate) * (alike**2).sum()) ** 0.5 / found.n
    assert abs(found.value - pair.rate) < 4 * error


def test_the_comparison_writes_table_steps_and_plot(twins):
    recipe, pair = twins
    folder = write_twins(recipe, [pair])
    summary = (folder / "summary.md").read_text()
    assert f"{pair.rate:.3f} (seed 0)" in summary
    assert [line.split(" | ")[1] for line in summary.splitlines() if line.startswith("| 0")] == [STRUCTURED, RANDOM]
    steps = pd.read_csv(folder / "steps.csv")
    assert set(steps["checker"]) == {STRUCTURED, RANDOM}
    assert steps["accuracy"].between(0, 1).all()
    assert (folder / "helpful-accuracy.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("noise", [{}, {"checker": {}}])
def test_a_recipe_without_a_structured_checker_is_refused(noise, make_recipe, tmp_path):
    with pytest.raises(ValueError, match=r"`noise\.checker\.base` .*; got "):
        play_twins(load_recipe(make_recipe(tmp_path, noise=noise)), seed=0)
