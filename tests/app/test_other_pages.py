"""Rounds and Score your own in a browser."""

import pandas as pd
from playwright.sync_api import expect

from pvg_hf.app.rounds_page import figures_frame
from pvg_hf.app.runs import OpenRun
from pvg_hf.report.tables import rounds_table


def test_rounds_are_shown_as_plots_and_numbers(app, open_page, arithmetic_run, tmp_path):
    page = open_page(f"{app}/rounds")
    expect(page.locator("#figures table tbody tr")).to_have_count(
        len(rounds_table(OpenRun(arithmetic_run).data()).headers) - 1
    )
    expect(page.locator("#figures thead th")).to_have_text(["", "base prover", "round 0", "round 1"])
    assert page.evaluate("[...document.querySelectorAll('.scroll')].every(box => box.scrollWidth <= box.clientWidth)")
    with page.expect_download() as download:
        page.locator("#download").click()
    download.value.save_as(tmp_path / "figures.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "figures.csv"), figures_frame(OpenRun(arithmetic_run).data()))


def test_a_text_entered_by_a_visitor_is_scored(app, open_page):
    page = open_page(f"{app}/score")
    page.get_by_role("button", name="Score", exact=True).click()
    expect(page.locator("#scored")).to_contain_text("The problem is empty")
    page.get_by_role("button", name="Fill in an example").click()
    solution = page.get_by_label("Solution, a step on each line")
    expect(solution).not_to_be_empty()
    num_steps = len(solution.input_value().split("\n"))
    page.get_by_role("button", name="Score", exact=True).click()
    expect(page.locator("#scored table.steps tbody tr")).to_have_count(num_steps)
    expect(page.locator("#scored")).to_contain_text("trained on whole solutions")
    expect(page.locator("#scored .big strong")).to_have_text(
        page.locator("table.steps tbody tr").last.locator("td").nth(1).inner_text()
    )
