"""The page of written evaluations in a browser."""

from playwright.sync_api import expect

from pvg_hf.app.runs import OpenRun


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
