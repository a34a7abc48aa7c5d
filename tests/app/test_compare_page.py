"""Two rounds, of one or of two runs, side by side."""

import re
import shutil

import pandas as pd
import pytest
import yaml
from playwright.sync_api import expect

from pvg_hf.app.compare_page import comparison_table, flipped_problems, show_comparison
from pvg_hf.app.runs import OpenRun
from pvg_hf.evaluation.comparison import compare_rounds
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.phase_record import seal_copy


@pytest.fixture(scope="module")
def data(arithmetic_run):
    return OpenRun(arithmetic_run).data()


def test_a_comparison_as_a_table(data):
    compared = compare_rounds(data.rounds[1], data.rounds[0])
    table = comparison_table(compared, "mine", "yours")
    assert table.headers == ["", "mine", "yours", "difference", "shared problems"]
    heading, cells = table.rows[0]
    assert heading == "helpful accuracy"
    difference = data.rounds[1].figure("accuracy/helpful").value - data.rounds[0].figure("accuracy/helpful").value
    assert cells[2].value == f"{difference:+.3f}"
    assert cells[3].value == "12"


@pytest.mark.parametrize(
    ("values", "address"),
    [
        ({}, "?ours=1&run=small&theirs=0"),
        ({"ours": "0", "theirs": "1"}, "?ours=0&run=small&theirs=1"),
        ({"ours": None, "run": None, "theirs": ""}, "?ours=1&run=small&theirs=0"),  # emptied
        ({"ours": "7", "run": "../small", "theirs": "x"}, "?ours=1&run=small&theirs=0"),
    ],
)
def test_unknown_rounds_and_runs_give_way_to_the_last_and_first(arithmetic_run, values, address):
    shown = show_comparison(OpenRun(arithmetic_run), values)
    assert shown.address == address
    assert "helpful accuracy" in shown.content


def test_a_run_without_an_evaluated_round_says_so(run_copy):
    fresh = run_copy.parent / "fresh"
    fresh.mkdir()
    shutil.copy(run_copy / "recipe.yaml", fresh)
    shown = show_comparison(OpenRun(fresh), {})
    assert shown.address == "?ours=&run=fresh&theirs="
    assert "The run fresh has no evaluated round. There is nothing to compare until" in shown.content
    assert "The run fresh has no evaluated round" in show_comparison(OpenRun(fresh), {"run": "small"}).content
    content = show_comparison(OpenRun(run_copy), {"run": "fresh"}).content
    assert "The run fresh has no evaluated round" in content
    assert "choose another run" in content


def test_another_run_differs_in_its_recipe(run_copy):
    other = shutil.copytree(run_copy, run_copy.parent / "other")
    recipe = yaml.safe_load((other / "recipe.yaml").read_text())
    recipe["prover"]["beta"] = 0.123
    (other / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    seal_copy(RunFolder(other))
    content = show_comparison(OpenRun(run_copy), {"run": "other"}).content
    assert "prover.beta" in content
    assert "0.123" in content
    assert "other, round 0" in content


def test_problems_that_fool_one_verifier_only_are_listed(data, arithmetic_run):
    tables = [
        pd.read_parquet(RunFolder(arithmetic_run).evaluation(k) / "problems.parquet").set_index("problem_id")["fooled"]
        for k in (1, 0)
    ]
    both = pd.concat(tables, axis=1, keys=["ours", "theirs"]).dropna().astype(bool)
    here, there = flipped_problems(data.rounds[1], data.rounds[0]).values()
    assert set(here) == set(both.index[both["ours"] & ~both["theirs"]])
    assert set(there) == set(both.index[~both["ours"] & both["theirs"]])


def test_the_rounds_are_chosen_in_the_address(app, open_page):
    page = open_page(f"{app}/compare")
    expect(page.locator("#view table").first).to_contain_text("helpful accuracy")
    page.get_by_label("Round of small").select_option("0")
    expect(page).to_have_url(re.compile("ours=0&run=small&theirs=0"))
    expect(page.locator("#view")).to_contain_text("Both sides are the same round")
    page.get_by_label("Its round").select_option("1")
    expect(page.locator("#view thead").first).to_contain_text(re.compile("small, round 0.*small, round 1", re.DOTALL))
    page.go_back()
    expect(page.get_by_label("Its round")).to_have_value("0")
    page.go_back()
    expect(page.get_by_label("Round of small")).to_have_value("1")
    expect(page.locator("#view thead").first).to_contain_text(re.compile("small, round 1.*small, round 0", re.DOTALL))


def test_a_round_is_not_compared_with_itself(arithmetic_run):
    content = show_comparison(OpenRun(arithmetic_run), {"ours": "0", "theirs": "0"}).content
    assert "Both sides are the same round" in content
    assert "<table" not in content
