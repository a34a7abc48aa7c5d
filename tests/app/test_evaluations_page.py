"""The page of written evaluations in a browser."""

import shutil

import pandas as pd
import pytest
from playwright.sync_api import expect

from pvg_hf.app.evaluations_page import KINDS
from pvg_hf.app.runs import OpenRun

pytestmark = pytest.mark.browser


def test_an_evaluation_is_shown_next_to_its_proof(serve, score_run, open_page, tmp_path):
    rows = OpenRun(score_run.root).evaluations().tables[1]
    url, _ = serve(score_run.root)
    page = open_page(f"{url}/evaluations")
    panel = page.locator("#evaluation")
    expect(panel).to_contain_text("Here is my evaluation of the solution:")
    expect(panel.locator("pre").first).to_have_text(rows["solution"].iloc[0])
    expect(panel).to_contain_text(f"true score {rows['reference'].iloc[0]:g}")
    page.locator("#next").click()
    expect(panel.locator("pre").first).to_have_text(rows["solution"].iloc[1])
    expect(page.get_by_label(f"Evaluation 2 of {len(rows)}")).to_have_value("2")
    for _ in range(len(rows) - 1):
        page.keyboard.press("n")
    expect(page.get_by_label(f"Evaluation 1 of {len(rows)}")).to_have_value("1")
    page.locator("#position input").fill("2")
    page.keyboard.press("Tab")
    expect(panel.locator("pre").first).to_have_text(rows["solution"].iloc[1])
    page.locator("#position input").fill("1")
    page.keyboard.press("Tab")
    expect(panel.locator("pre").first).to_have_text(rows["solution"].iloc[0])


def test_hallucinated_issues_are_marked(serve, score_run, open_page, tmp_path):
    rows = KINDS["hallucinated issue"](OpenRun(score_run.root).evaluations().tables[1])
    assert len(rows)
    url, _ = serve(score_run.root)
    page = open_page(f"{url}/evaluations")
    page.get_by_label("Show").click()
    page.get_by_role("option", name="hallucinated issue").click()
    expect(page.get_by_label(f"Evaluation 1 of {len(rows)}")).to_be_visible()
    expect(page.locator("#evaluation .flaw").first).to_contain_text("hallucinated")


@pytest.mark.slow
def test_new_evaluations_appear_while_the_app_is_open(serve, score_run, open_page, tmp_path):
    root = tmp_path / "runs" / "game"
    shutil.copytree(score_run.root, root)
    for name in ("round-000", "round-001"):
        shutil.move(root / "evaluation" / name, tmp_path / name)
    url, _ = serve(root)
    expect(open_page(f"{url}/evaluations").locator(".notice")).to_contain_text("No verifier of this run")
    for name in ("round-000", "round-001"):
        shutil.move(tmp_path / name, root / "evaluation" / name)
        page = open_page(f"{url}/evaluations")
        expect(page.locator("#evaluation pre").first).to_be_visible()
        expect(page.get_by_role("combobox", name="Round")).to_have_value(f"round {int(name[-3:])}")
        page.locator("#next").click()
        expect(page.locator("#position input")).to_have_value("2")
    page.get_by_role("combobox", name="Round").click()
    page.get_by_role("option", name="round 0").click()
    expect(page.locator("#position input")).to_have_value("1")


def test_a_run_without_evaluations_says_so(app, open_page):
    page = open_page(f"{app}/evaluations")
    expect(page.get_by_text("No verifier of this run has written evaluations")).to_be_visible()


def test_kinds_by_hand():
    rows = pd.DataFrame(
        {"reference": [0.0, 1.0, 0.5], "predicted": [1.0, 1.0, None], "issues": ['[["x", false]]', "[]", "[]"]}
    )
    assert [list(choose(rows).index) for choose in KINDS.values()] == [[0, 1, 2], [0, 2], [0], [0]]


def test_an_issue_that_quotes_the_word_false_is_not_hallucinated():
    rows = pd.DataFrame({"issues": ['[["Line 2 calls a true statement false.", true]]', '[["x", null]]']})
    assert KINDS["hallucinated issue"](rows).empty
    assert list(KINDS["hallucinated issue"](rows[:0]).columns) == ["issues"]
