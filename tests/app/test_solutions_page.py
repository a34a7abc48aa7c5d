"""The Solutions page in a browser, and as a function of its address."""

import json
import os
import re

import pytest
from playwright.sync_api import expect

from pvg_hf.app.index import Query, SolutionIndex
from pvg_hf.app.links import View, parse_link, write_link
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.solutions_page import show_solutions
from pvg_hf.app.text_scores import ScoreDesk
from pvg_hf.core.roles import Role
from pvg_hf.data.annotations import read_annotations
from pvg_hf.run.layout import RunFolder
from tests.support.index_rows import problem_ids, solution_rows

MISTAKES = Query(1, is_test=True, role=Role.SNEAKY, correct=False)
ROWS = "table.solutions tbody tr"


@pytest.fixture(scope="module")
def index(arithmetic_run) -> SolutionIndex:
    return SolutionIndex(RunFolder(arithmetic_run))


def keys_of(page) -> list[str]:
    return [row.get_attribute("data-key") for row in page.locator("a.row").all()]


def show(arithmetic_run, view: View):
    run = OpenRun(arithmetic_run)
    return show_solutions(run, ScoreDesk(run), parse_link(write_link(view)))


def test_pages_and_places_beyond_the_end_are_corrected(arithmetic_run, index):
    count = index.count(Query())
    for view, expected in (
        (View(Query(), page=999), View(Query(), page=-(-count // 50))),
        (View(Query(), at=count + 1), View(Query(), at=1, opened=index.find(Query(), 1, 1)[0].key)),
        (View(Query(search="no such text"), at=5), View(Query(search="no such text"))),
    ):
        assert show(arithmetic_run, view).address == write_link(expected)


def test_steps_are_scored_by_any_verifier_of_the_run(arithmetic_run, index):
    opened = index.find(MISTAKES, 0, 1)[0]
    run = OpenRun(arithmetic_run)
    for verifier in (0, 1):
        (row,) = index.read([opened.place])
        steps = ScoreDesk(run).step_scores(verifier, row["problem"], row["solution"].strip())
        content = show(arithmetic_run, View(MISTAKES, opened=opened.key, steps=verifier)).content
        assert all(f'data-score="{score:+.2f}"' in content for score in steps)


def test_the_table_opens_a_pair_and_back_leads_to_the_table(app, open_page, index):
    page = open_page(app)
    mistakes = index.find(MISTAKES)
    expect(page.locator(ROWS)).to_have_count(min(50, len(mistakes)))
    assert keys_of(page) == [one.key for one in mistakes[:50]]
    page.locator(ROWS).nth(1).click()
    (row,) = index.read([mistakes[1].place])
    expect(page.locator("#card-sneaky pre").first).to_contain_text(row["solution"].strip().split("\n")[0])
    expect(page.locator("#card-sneaky .verdict strong")).to_have_text("Incorrect")
    expect(page.locator("#card-helpful pre")).not_to_be_empty()
    expect(page).to_have_url(re.compile(f"open={mistakes[1].key}"))
    page.go_back()
    expect(page.locator(ROWS)).to_have_count(min(50, len(mistakes)))
    page.go_forward()
    expect(page.locator("#card-sneaky .verdict")).to_be_visible()
    again = open_page(page.url)
    expect(again.locator("#card-sneaky pre").first).to_have_text(
        page.locator("#card-sneaky pre").first.inner_text(), use_inner_text=True
    )


def test_filters_search_and_order_are_in_the_address(app, open_page, index):
    page = open_page(f"{app}/?round=1")
    expect(page.locator(".count strong")).to_have_text(str(index.count(Query(1))))
    page.get_by_label("Role").select_option("helpful")
    query = Query(1, role=Role.HELPFUL)
    expect(page.locator(".count strong")).to_have_text(str(index.count(query)))
    page.locator("thead a", has_text="tokens").click()
    expect(page).to_have_url(re.compile("role=helpful.*sort=-tokens"))
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("tokens")
    word = solution_rows(index, 1, problem_ids(index, 1)[0])[0]["problem"].split()[0]
    search = page.get_by_label("Search")
    search.press_sequentially(word, delay=20)
    number = index.count(Query(1, role=Role.HELPFUL, search=word))
    expect(page.locator(".count strong")).to_have_text(str(number))
    expect(search).to_be_focused()
    expect(page).to_have_url(re.compile(f"search={word}"))
    for _ in word:
        search.press("Backspace")
    expect(page.locator(".count strong")).to_have_text(str(index.count(query)))
    page.go_back()  # from one search to the view before it
    expect(page.get_by_label("Role")).to_have_value("helpful")
    page.go_back()
    expect(page.get_by_label("Role")).to_have_value("")
    expect(page.locator(".count strong")).to_have_text(str(index.count(Query(1))))


def test_the_keyboard_leads_through_table_and_pairs(app, open_page, index):
    mistakes = index.find(MISTAKES)
    page = open_page(app)
    expect(page.locator(ROWS).first).to_be_visible()
    for key, place in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
        page.keyboard.press(key)
        expect(page.locator("a.row").nth(place)).to_be_focused()
    page.keyboard.press("x")
    expect(page.locator("#num-selected")).to_have_text("1 selected")
    expect(page).to_have_url(re.compile(f"sel={mistakes[1].key}"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"open={mistakes[1].key}"))
    expect(page.locator("#card-sneaky pre").first).to_be_visible()
    for _ in range(5):
        page.keyboard.press("n")  # quicker than the server answers
    expect(page).to_have_url(re.compile(f"open={mistakes[6 % len(mistakes)].key}"))
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile(f"open={mistakes[5 % len(mistakes)].key}"))
    page.keyboard.press("Escape")
    expect(page.locator(ROWS).nth(1).locator("input")).to_be_checked()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()


def test_a_later_page_of_the_table_is_kept_by_reload_and_back(app, open_page):
    page = open_page(f"{app}/?sort=problem")
    pager = page.locator(".pager")
    expect(pager).to_contain_text("page 1 of")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")
    expect(pager).to_contain_text("page 2 of")
    page.reload()
    expect(pager).to_contain_text("page 2 of")
    page.get_by_role("link", name="Rounds").click()
    expect(page.locator("#verdict .headline")).to_be_visible()
    page.go_back()
    expect(pager).to_contain_text("page 2 of")


def test_selected_rows_are_exported(app, open_page, index, tmp_path):
    page = open_page(f"{app}/?round=1&part=test&sort=problem")
    page.locator(ROWS).nth(0).locator("input").check()
    page.locator(ROWS).nth(2).locator("input").check()
    expect(page.locator("#num-selected")).to_have_text("2 selected")
    page.locator("#export").click()
    expect(page.locator("#export-state")).to_contain_text("2 rows as JSONL")
    with page.expect_download() as download:
        page.locator("#export-file").click()
    download.value.save_as(tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    listed = index.find(Query(1, is_test=True, sort="problem", is_descending=False), 0, 3)
    assert [row["key"] for row in rows] == [listed[0].key, listed[2].key]


def test_a_problem_in_every_round_and_the_steps_of_its_solutions(app, open_page, index):
    page = open_page(f"{app}/?round=1&part=test&role=sneaky&sort=-score&at=0")
    page.get_by_role("link", name="Show all rounds").click()
    expect(page.locator(".strip section")).to_have_count(3)
    page.get_by_role("link", name="verifier 0").first.click()
    expect(page.locator("#card-sneaky .so-far").first).to_be_visible()
    expect(page).to_have_url(re.compile("steps=0.*strip=yes"))


def test_a_training_problem_has_no_other_rounds_to_show(app, open_page):
    page = open_page(f"{app}/?round=1&part=training&role=sneaky&at=0")
    expect(page.locator("#card-sneaky")).to_be_visible()
    expect(page.get_by_role("link", name="Show all rounds")).to_have_count(0)


def test_a_solution_is_labelled_below_its_pair(serve, open_page, run_copy, index):
    url, _ = serve(run_copy)
    page = open_page(url)
    form = page.locator("#labelling")
    expect(form).to_be_hidden()
    page.locator("a.row").first.click()
    expect(form).to_be_visible()
    expect(form.get_by_label("sneaky")).to_be_checked()  # the row that was opened
    form.get_by_label("partly correct").check()
    expect(page.locator("#card-sneaky")).to_contain_text("Labelled partly correct by a person")
    form.get_by_label("Note").fill("a <b>sum</b>")
    form.get_by_label("Note").press("Enter")
    expect(page.locator("#card-sneaky")).to_contain_text("Labelled partly correct by a person: a <b>sum</b>")
    page.get_by_role("link", name="Show all rounds").click()
    expect(page.locator(".strip")).to_contain_text("labelled partly correct")
    form.get_by_label("helpful").check()
    expect(form.get_by_label("not labelled")).to_be_checked()
    expect(form.get_by_label("Note")).to_have_value("")
    page.locator(
        "#card-helpful .figures a:not([aria-current])"
    ).first.click()  # another helpful solution to the same problem
    expect(form.get_by_label(re.compile("helpful [2-9]"))).to_be_checked()
    form.get_by_label("sneaky").check()
    expect(form.get_by_label("Note")).to_have_value("a <b>sum</b>")
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    opened = index.find(MISTAKES, 0, 1)[0]
    assert {key: (one.score, one.note) for key, one in read_annotations(run_copy)[0].items()} == {
        opened.key: (0.5, "a <b>sum</b>")
    }
    page.reload()
    page.get_by_label("Your label").select_option("partly correct")
    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator(ROWS).first).to_contain_text("partly correct")


def test_a_pair_and_the_form_below_it_come_in_one_call(serve, open_page, run_copy):
    # A call of its own for the form would replace what a person had chosen in it in between.
    url, _ = serve(run_copy)
    page = open_page(f"{url}/?round=1&part=test&role=sneaky&correct=no&sort=-score&at=0")
    expect(page.locator("#labelling")).to_be_visible()
    calls = []
    page.on("request", lambda request: calls.append(request.url) if "/queue/join" in request.url else None)
    page.get_by_role("link", name="Show all rounds").click()
    expect(page.locator(".strip")).to_be_visible()
    page.locator("#card-helpful .figures a:not([aria-current])").first.click()
    expect(page.locator("#labelling").get_by_label(re.compile("helpful [2-9]"))).to_be_visible()
    assert len(calls) == 2


def test_a_pair_whose_file_is_damaged_meanwhile_says_so(serve, open_page, run_copy):
    url, _ = serve(run_copy)
    page = open_page(f"{url}/?round=1&part=test&role=sneaky")
    expect(page.locator("a.row").first).to_be_visible()
    path = run_copy / "pool" / "round-001" / "test-sneaky.parquet"
    content, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(b"PAR1" + bytes(len(content) // 2) + content[len(content) // 2 + 4 :])
    os.utime(path, ns=times)  # the index does not see a change
    page.locator("a.row").first.click()
    expect(page.get_by_role("alert")).to_contain_text("test-sneaky.parquet")
    expect(page.locator("#labelling")).to_be_hidden()


def test_a_note_that_is_left_by_a_click_on_next_belongs_to_the_solution_that_was_shown(
    serve, open_page, run_copy, index
):
    url, _ = serve(run_copy)
    page = open_page(f"{url}/?round=1&part=test&role=sneaky&correct=no&sort=-score&at=0")
    expect(page.locator("#labelling")).to_be_visible()
    page.keyboard.press("l")
    expect(page.locator("#label").get_by_label("not labelled")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator("#card-sneaky")).to_contain_text("Labelled correct by a person")
    page.locator("#note").get_by_role("textbox").fill("about the first")
    page.locator("#next").click()
    expect(page.locator("#note").get_by_role("textbox")).to_have_value("")
    expect(page.locator("#label").get_by_label("not labelled")).to_be_checked()
    first = index.find(MISTAKES, 0, 1)[0]
    assert {key: (one.score, one.note) for key, one in read_annotations(run_copy)[0].items()} == {
        first.key: (1.0, "about the first")
    }
