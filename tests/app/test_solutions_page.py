"""The Solutions page in a browser."""

import re

import pytest
from playwright.sync_api import expect

from pvg_hf.browse.index import SolutionIndex
from pvg_hf.browse.query import Filter, Query
from pvg_hf.game.folder import RunFolder

pytestmark = pytest.mark.browser

PROBLEM = "#problem article > pre"  # not the reference


@pytest.fixture(scope="module")
def index(arithmetic_run) -> SolutionIndex:
    return SolutionIndex(RunFolder(arithmetic_run))


def problem_texts(index, query) -> list[str]:
    return [index.solutions(query.round_index, found)[0]["problem"] for found in index.find(query)]


def test_two_solutions_side_by_side_and_the_truth_on_demand(app, open_page, index):
    first = index.find(Query(1))[0]
    page = open_page(app)
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
    page = open_page(app)
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
    page.locator("#search textarea, #search input").first.press_sequentially("nrp")
    expect(page.locator("#problem")).to_contain_text("No problem fits")


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


@pytest.mark.parametrize("link", ["?round=99&problem=no-such&helpful=x", "?part=training&show=<b>&search=%00"])
def test_a_link_to_what_is_not_there_shows_what_is(app, open_page, link):
    page = open_page(f"{app}/{link}")
    expect(page.locator("#problem")).to_contain_text(re.compile("Problem|No problem fits"))
