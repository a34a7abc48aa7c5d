"""The Solutions page in a browser."""

import re

import pandas as pd
import pytest
from playwright.sync_api import expect

from pvg_hf.app.index import Filter, Query, SolutionIndex
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import forget_digests

pytestmark = pytest.mark.browser

PROBLEM = "#problem article > pre"  # not the reference
POSITION = "#position input"
SEARCH = "#search textarea"


@pytest.fixture(scope="module")
def index(arithmetic_run) -> SolutionIndex:
    return SolutionIndex(RunFolder(arithmetic_run))


def problem_texts(index, query) -> list[str]:
    return [index.solutions(query.round_index, found)[0]["problem"] for found in index.find(query)]


def test_two_solutions_side_by_side_and_the_truth_on_demand(app, open_page, index):
    first = index.find(Query(1))[0]
    page = open_page(f"{app}/?show=all")
    expect(page.locator(PROBLEM)).to_have_text(problem_texts(index, Query(1))[0])
    for role in ("helpful", "sneaky"):
        expect(page.locator(f"#card-{role} pre")).not_to_be_empty()
    expect(page.locator("#histogram figcaption")).to_contain_text("threshold")
    hidden = re.compile(r"\b(Correct|Incorrect)\b|first flaw")
    assert not hidden.search(page.locator("#card-helpful").inner_html() + page.locator("#card-sneaky").inner_html())
    page.get_by_role("button", name="Reveal").click()
    for role in ("helpful", "sneaky"):
        row = next(row for row in index.solutions(1, first) if row["role"] == role)
        card = page.locator(f"#card-{role}")
        expect(card.locator(".verdict strong")).to_have_text("Correct" if row["correct"] else "Incorrect")
        if row["first_flaw_step"] is None:
            expect(card.locator("mark")).to_have_count(0)
        else:
            expect(card.locator("mark")).to_have_text(row["solution"].strip().split("\n")[row["first_flaw_step"]])
    page.get_by_role("button", name="Hide").click()
    expect(page.locator(".verdict")).to_have_count(0)


def test_keys_lead_through_the_problems(app, open_page, index):
    texts = problem_texts(index, Query(1))
    page = open_page(f"{app}/?show=all")
    problem = page.locator(PROBLEM)
    expect(problem).to_have_text(texts[0])
    for key, place in (("ArrowRight", 1), ("n", 2), ("ArrowLeft", 1), ("p", 0), ("p", -1)):
        page.keyboard.press(key)
        expect(problem).to_have_text(texts[place])
    page.keyboard.press("r")
    expect(page.locator(".verdict")).to_have_count(2)
    page.keyboard.press("n")
    expect(problem).to_have_text(texts[0])
    expect(page.locator(".verdict")).to_have_count(0)  # of the next problem nothing is given away
    page.locator(SEARCH).press_sequentially("nrp")
    expect(page.locator("#problem")).to_contain_text("No problem fits")


@pytest.mark.slow
def test_ten_key_presses_move_on_by_ten_problems(app, open_page, index):
    texts = problem_texts(index, Query(1))
    page = open_page(f"{app}/?show=all")
    expect(page.locator(PROBLEM)).to_have_text(texts[0])
    for key, place in (("n", 10), ("p", 0)):
        for _ in range(10):
            page.keyboard.press(key)
        expect(page.locator(PROBLEM)).to_have_text(texts[place])
        expect(page.locator(POSITION)).to_have_value(str(place + 1))


def test_the_first_view_has_the_problems_that_fooled_the_verifier(serve, open_page, run_copy):
    file = run_copy / "pool" / "round-001" / "test-sneaky.parquet"
    rows = pd.read_parquet(file)
    fooling = rows[~rows["correct"] & ~rows["outcome"].isin(FAILED_OUTCOMES)].index
    rows.loc[fooling, "score"] = [100.0 + place for place in range(len(fooling))]
    rows.to_parquet(file)
    forget_digests(run_copy)
    url, _ = serve(run_copy)
    fooled = problem_texts(SolutionIndex(RunFolder(run_copy)), Query(1, filter=Filter.FOOLED))
    page = open_page(url)
    expect(page.get_by_role("combobox", name="Show")).to_have_value("fooled")
    expect(page.get_by_label(f"Problem 1 of {len(fooled)}")).to_be_visible()
    expect(page.locator(PROBLEM)).to_have_text(fooled[0])


def test_a_number_that_is_typed_slowly_is_read_whole(app, open_page, index):
    texts = problem_texts(index, Query(1))
    page = open_page(f"{app}/?show=all")
    position, problem = page.locator(POSITION), page.locator(PROBLEM)
    expect(problem).to_have_text(texts[0])
    position.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("12", delay=100)
    expect(position).to_have_value("12")
    page.keyboard.press("Enter")
    expect(problem).to_have_text(texts[11])
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.type("10", delay=100)
    page.keyboard.press("Tab")
    expect(problem).to_have_text(texts[9])
    expect(page.get_by_label(f"Problem 10 of {len(texts)}")).to_have_value("10")
    position.fill("4")
    page.locator("#next").click()  # leaves the field: to the fourth problem, and one on
    expect(problem).to_have_text(texts[4])
    position.fill("")
    page.keyboard.press("Tab")
    expect(position).to_have_value("5")


def test_search_notices_what_is_deleted_and_pasted(app, open_page, index):
    word = problem_texts(index, Query(1))[0].split()[0]
    number = {search: len(index.find(Query(1, search=search))) for search in ("", word)}
    assert number[""] > number[word] > 0
    page = open_page(f"{app}/?show=all")
    search, problem = page.locator(SEARCH), page.locator("#problem")
    expect(
        page.get_by_label(f"Problem 1 of {number['']}")
    ).to_be_visible()  # the first view, before which nothing is typed
    for keys, found in (
        (f"{word}xx", 0),
        (["Backspace"] * 2, number[word]),
        (["Control+a", "Delete"], number[""]),
    ):
        search.press_sequentially(keys) if isinstance(keys, str) else [search.press(key) for key in keys]
        expect(page.get_by_label(f"Problem {min(found, 1)} of {found}")).to_be_visible()
    page.keyboard.insert_text(word)  # as a paste: no key is pressed
    expect(page.get_by_label(f"Problem 1 of {number[word]}")).to_be_visible()
    expect(page).to_have_url(re.compile(f"search={word}&problem="))
    page.keyboard.press("Tab")
    page.locator("#next").click()
    expect(page.locator(POSITION)).to_have_value(str(1 % number[word] + 1))
    text = problem.inner_text()
    again = open_page(page.url)  # the filled-in search does not lead back to the first problem
    expect(again.locator(SEARCH)).to_have_value(word)
    expect(again.locator("#problem")).to_have_text(text, use_inner_text=True)


def test_a_problem_stays_when_the_round_changes(app, open_page, index):
    fooled = Query(0, filter=Filter.CAUGHT)
    problem_id = next(found for found in index.find(fooled) if found in index.find(Query(1)))
    page = open_page(f"{app}/?round=0&show=caught&problem={problem_id}")
    text = index.solutions(0, problem_id)[0]["problem"]
    expect(page.locator(PROBLEM)).to_have_text(text)
    for name, k in (("round 1", 1), ("base prover", -1)):
        page.get_by_role("combobox", name="Round").click()
        page.get_by_role("option", name=name).click()
        expect(page).to_have_url(re.compile(f"round={k}&.*problem={problem_id}"))
        expect(page.locator(PROBLEM)).to_have_text(text)
    is_caught = problem_id in index.find(Query(-1, filter=Filter.CAUGHT))
    expect(page.get_by_role("combobox", name="Show")).to_have_value("caught" if is_caught else "every problem")


def test_a_filter_and_the_link_to_what_it_shows(app, open_page, index):
    query = Query(0, filter=Filter.CAUGHT)
    texts = problem_texts(index, query)
    page = open_page(f"{app}/?round=0&show=caught")
    problem = page.locator(PROBLEM)
    expect(problem).to_have_text(texts[0])
    page.get_by_role("button", name="Next").click()
    expect(problem).to_have_text(texts[1 % len(texts)])
    page.get_by_role("combobox", name="Sneaky solution").click()
    page.get_by_role("option").nth(1).click()
    expect(page).to_have_url(re.compile(r"problem=arithmetic.*helpful=\d+&sneaky=\d+"))
    shown = [page.locator(f"#card-{role} pre").inner_text() for role in ("helpful", "sneaky")]
    again = open_page(page.url)
    expect(again.locator(PROBLEM)).to_have_text(texts[1 % len(texts)])
    for role, text in zip(("helpful", "sneaky"), shown):
        expect(again.locator(f"#card-{role} pre")).to_have_text(text, use_inner_text=True)


def test_a_part_without_problems_says_so(app, open_page):
    page = open_page(f"{app}/?round=-1&show=all")
    page.get_by_role("combobox", name="Problems").click()
    page.get_by_role("option", name="training").click()
    expect(page.locator("#problem")).to_contain_text("No problem fits")
    page.keyboard.press("n")
    page.wait_for_timeout(500)
    expect(page.locator("#problem")).to_contain_text("No problem fits")
    page.get_by_role("combobox", name="Round").click()
    page.get_by_role("option", name="round 1").click()
    expect(page.get_by_label("Problem 1 of 12")).to_be_visible()
    expect(page.get_by_role("combobox", name="Problems")).to_have_value("test")


@pytest.mark.parametrize("link", ["?round=99&problem=no-such&helpful=x", "?part=training&show=<b>&search=%00"])
def test_a_link_to_something_missing_shows_the_page(app, open_page, link):
    page = open_page(f"{app}/{link}")
    expect(page.locator("#problem")).to_contain_text(re.compile("Problem|No problem fits"))
