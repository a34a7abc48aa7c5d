"""Every page at a narrow width, in both colour schemes, and with hostile texts."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import TimeoutError, expect

from pvg_hf.app.index import Query, SolutionIndex
from pvg_hf.run.layout import RunFolder
from tests.support.game_runs import forget_digests

pytestmark = pytest.mark.nightly

PATHS = {
    "": "#card-sneaky pre",
    "table": "table.solutions a.row",
    "rounds": "#plot-accuracy svg",
    "compare": "#view table",
    "verifiers": "#plot-pools svg",
    "evaluations": "#evaluation pre",
    "score": "#own-solution",
}
# Everything that can be pressed or filled in on a page, as a person sees it.
FILTERS = "Search, Round, Problems, Role, Correct, Accepted, Fools verifier, First flaw, Difficulty, Rows"
LABELLING = "helpful, sneaky, not labelled, correct, partly correct, incorrect, Note (Enter saves it)"
EXPORT = "Export as, Export the selected rows, or all that the filters leave"
CONTROLS = {
    "": f"Scores of the round, Reference, {LABELLING}, {EXPORT}",
    "table": f"{FILTERS}, {EXPORT}",
    "rounds": "Download all figures (CSV)",
    "compare": "Round of small, Run, Its round",
    "verifiers": "",
    "evaluations": "Round, Show, Previous, Evaluation 1 of 1, Next",
    "score": "Verifier of, Problem, Solution, a step on each line, Fill in an example, Score",
}
VISIBLE = """() => {
    const label = (element) => element.labels?.[0]?.firstChild.textContent;
    const name = (element) => element.getAttribute("aria-label") || (element.matches("select") && label(element))
        || element.innerText || element.labels?.[0]?.innerText || element.id;
    return [...document.querySelectorAll("button, input, textarea, select, summary, [contenteditable=true]")]
        .filter((element) => !element.closest("#run-header, .plots, table.solutions"))
        .filter((element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
        .map((element) => name(element).trim().split("\\n")[0].replace(/^(helpful|sneaky) [0-9]+$/, "$1"))
        .join(", ");
}"""
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\n"
    "[link](javascript:alert(1)) ![image](http://evil.example/x.png) **bold** $x^2$\n"
    "${document.title='owned'} {{7*7}} {% raw %} </pre></article><h1>owned</h1>\n"
    "<a href=http://evil.example>here</a> \u202e#### 3"
)
SHOWN = HOSTILE.replace("\u202e", "U+202E")  # what a reader is shown of it
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture(scope="module")
def addresses(app, serve_for_module, arithmetic_run, tmp_path_factory) -> dict[str, str]:
    """The address of each page, on a run that fills it."""
    run = Path(shutil.copytree(arithmetic_run, tmp_path_factory.mktemp("evaluated") / "small"))
    write_evaluation(run, problem="How many?", solution="#### 3", evaluation="No.\nYes.\nSo?", role="sneaky")
    # Which solutions are shown by default depends on what the provers wrote.
    key = SolutionIndex(RunFolder(run)).find(Query(), 0, 1)[0].key
    others = {
        "": f"{app}/?open={key}",
        "table": f"{app}/?sort=problem",
        "evaluations": f"{serve_for_module(run)[0]}/evaluations",
    }
    return {path: f"{app}/{path}" for path in PATHS} | others


def write_evaluation(run: Path, evaluation: str, **texts: str) -> None:
    """
    Write an evaluation whose first line names an issue that does not exist, and whose second one names a real issue.
    """
    issues = json.dumps([[line, place > 0] for place, line in enumerate(evaluation.split("\n")[:2])])
    row = {**texts, "evaluation": evaluation, "issues": issues, "reference": 0.0, "predicted": 1.0}
    pd.DataFrame([row]).to_parquet(run / "evaluation" / "round-001" / "evaluations.parquet")


def check_controls(page, expected: str) -> None:
    """Wait until exactly these controls are visible, and check again once the page no longer changes."""
    try:
        page.wait_for_function(f"(expected) => ({VISIBLE})() === expected", arg=expected, timeout=60_000)
    except TimeoutError:
        assert page.evaluate(VISIBLE) == expected
    page.wait_for_timeout(500)
    assert page.evaluate(VISIBLE) == expected
    empty_frames = """[...document.querySelectorAll(".form")].filter((form) => form.checkVisibility()
        && ![...form.children].some((child) => child.checkVisibility())).length"""
    assert page.evaluate(empty_frames) == 0


def test_only_a_pages_own_controls_are_visible_on_a_wide_screen(addresses, open_page):
    for path, ready in PATHS.items():
        page = open_page(addresses[path])
        expect(page.locator(ready).first).to_be_visible()
        check_controls(page, CONTROLS[path])
        page.close()


def test_only_a_pages_own_controls_are_visible_after_it_was_used(addresses, open_page):
    page = open_page(addresses["table"])
    page.locator("a.row").first.click()
    check_controls(page, CONTROLS[""])
    page.get_by_role("link", name="Back to the table").click()
    check_controls(page, CONTROLS["table"])
    page.get_by_label("Search").fill("no such problem")
    expect(page.locator(".notice")).to_contain_text("No solution fits")
    check_controls(page, CONTROLS["table"])
    page.goto(addresses["score"])
    page.get_by_role("button", name="Fill in an example").click()
    expect(page.get_by_label("Solution, a step on each line")).not_to_be_empty()
    page.get_by_role("button", name="Score", exact=True).click()
    expect(page.locator("#scored table")).to_be_visible()
    check_controls(page, CONTROLS["score"])
    page.goto(addresses["evaluations"])
    page.get_by_role("button", name="Next").click()
    check_controls(page, CONTROLS["evaluations"])


@pytest.mark.parametrize("path", PATHS)
def test_a_narrow_screen_shows_a_pages_own_controls_and_needs_no_scrolling_sideways(addresses, open_page, path):
    page = open_page(addresses[path], width=390)
    expect(page.locator(PATHS[path]).first).to_be_visible()
    check_controls(page, CONTROLS[path])
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = """[...document.querySelectorAll('button, input, textarea, pre')].filter(element => element.offsetParent
        && element.getBoundingClientRect().right > 391
        && !element.closest('.scroll, nav')).map(e => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(wide) == []


def test_a_dropdowns_text_ends_before_its_arrow(addresses, open_page):
    page = open_page(addresses["evaluations"], width=390)
    expect(page.get_by_role("combobox", name="Show")).to_have_value("every evaluation")
    overlapping = """[...document.querySelectorAll('.secondary-wrap')].filter(e => e.checkVisibility()).filter(e => {
        const [input, arrow] = [e.querySelector('input'), e.querySelector('.icon-wrap')];
        return input.scrollWidth > input.clientWidth
            || input.getBoundingClientRect().right > arrow.getBoundingClientRect().left;
    }).map(e => e.querySelector('input').value)"""
    assert page.evaluate(overlapping) == []


def test_scores_after_each_step_fit_a_narrow_screen(addresses, open_page):
    page = open_page(addresses["score"], width=390)
    page.get_by_role("button", name="Fill in an example").click()
    expect(page.get_by_label("Solution, a step on each line")).not_to_be_empty()
    page.get_by_role("button", name="Score", exact=True).click()
    expect(page.locator("#scored table")).to_be_visible()
    assert page.locator("#scored .scroll").evaluate("element => element.scrollWidth <= element.clientWidth")


def test_rounds_are_whole_on_paper(addresses, open_page):
    page = open_page(addresses["rounds"], width=718)  # A4 less Chromium's margins
    page.emulate_media(media="print")
    expect(page.locator("#figures table")).to_be_visible()
    cut = """[...document.querySelectorAll('#figures table')]
        .map(element => element.getBoundingClientRect().right).filter(right => right > innerWidth)"""
    assert page.evaluate(cut) == []
    # Flex boxes overlap where a page ends.
    flexible = """[...document.querySelectorAll('.gradio-container')].flatMap(top => {
        const found = [];
        for (let e = document.querySelector('#figures'); e !== top.parentElement; e = e.parentElement)
            if (getComputedStyle(e.parentElement).display === 'flex') found.push(e.parentElement.className);
        return found;
    })"""
    assert page.evaluate(flexible) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_the_contrast_of_wcag_aa(addresses, open_page, scheme):
    for path, ready in PATHS.items():
        page = open_page(addresses[path], scheme=scheme)
        expect(page.locator(ready).first).to_be_visible()
        if path == "evaluations":
            expect(page.locator("#evaluation mark + span")).to_have_text(["◀ hallucinated", "◀ true"])
        assert page.evaluate(CONTRAST) == []


@pytest.fixture
def hostile_run(run_copy) -> Path:
    for file in run_copy.glob("pool/*/*.parquet"):
        rows = pd.read_parquet(file)
        rows.assign(solution=HOSTILE, problem=HOSTILE + rows["problem"], first_flaw_step=None).to_parquet(file)
    forget_digests(run_copy)
    write_evaluation(run_copy, problem=HOSTILE, solution=HOSTILE, evaluation=HOSTILE, role="<h1>owned</h1>")
    return run_copy


def test_hostile_texts_are_shown_as_texts(serve, open_page, hostile_run):
    url, _ = serve(hostile_run)
    page = open_page(f"{url}/?round=1&part=test&sort=-score&at=0&strip=yes")
    for place in (".view .problem > pre", "#card-helpful pre", "#card-sneaky pre", ".strip pre"):
        text = page.locator(place).first
        expect(text).to_contain_text(SHOWN.splitlines()[1])
        assert text.text_content().startswith(SHOWN)
    check_harmless(page)
    page = open_page(f"{url}/?search={HOSTILE.splitlines()[0]}")
    expect(page.get_by_label("Search")).to_have_value(HOSTILE.splitlines()[0])
    expect(page.locator("a.row").first).to_be_visible()
    check_harmless(page)
    page = open_page(f"{url}/evaluations", width=390)
    expect(page.locator("#evaluation mark")).to_have_count(2)
    for place in ("p", "pre"):
        assert page.locator(f"#evaluation {place}").first.text_content() == SHOWN
    for line in SHOWN.splitlines():
        expect(page.locator("#evaluation pre").last).to_contain_text(line)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    check_harmless(page)
    page = open_page(f"{url}/score")
    page.get_by_role("button", name="Fill in an example").click()
    expect(page.get_by_label("Solution, a step on each line")).to_have_value(HOSTILE)
    page.get_by_role("button", name="Score", exact=True).click()
    expect(page.locator("table.steps td.text").first).to_have_text(SHOWN.splitlines()[0])
    check_harmless(page)


def test_texts_are_shown_exactly_as_written(serve, open_page, run_copy):
    """
    Zero-width characters are visible, and a long text is folded.
    """
    written = "\u05e9\u05dc\u05d5\u05e9 12 - 5 = 7\n3\u200b4\n" + "x" * 200_000
    forget_digests(run_copy)
    for file in run_copy.glob("pool/*/*.parquet"):
        pd.read_parquet(file).assign(solution=written).to_parquet(file)
    url, _ = serve(run_copy)
    page = open_page(f"{url}/?round=1&part=test&sort=-score&at=0", width=390)
    check_is_read(page, "#card-helpful")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def check_is_read(page, place: str) -> None:
    text = page.locator(f"{place} pre").filter(has_text="12 - 5").first
    expect(text.locator(".codepoint")).to_have_text("U+200B")
    assert text.evaluate("element => element.getBoundingClientRect().height") < 8_000
    rest = page.locator(f"{place} details.rest")
    expect(rest.locator("pre").first).to_be_hidden()
    rest.locator("summary").first.click()
    expect(rest.locator("pre").first).to_be_visible()


def check_harmless(page) -> None:
    assert page.title() != "owned"
    assert page.locator("img[src='x'], a[href*='evil'], a[href^='javascript'], h1:text-is('owned')").count() == 0


def test_a_damaged_run_says_what_to_do_and_shows_the_rest(serve, open_page, run_copy):
    (run_copy / "pool" / "round-001" / "test-sneaky.parquet").write_bytes(b"no parquet")
    (run_copy / "verifier" / "round-001" / "model.safetensors").write_bytes(b"no weights")
    (run_copy / "evaluation" / "round-001" / "evaluations.parquet").write_bytes(b"no parquet")
    (run_copy / "pool" / "round-000.bak").mkdir()
    url, _ = serve(run_copy)
    page = open_page(url)
    expect(page.get_by_role("alert").first).to_contain_text("test-sneaky.parquet is damaged")
    page.locator("a.row").first.click()
    expect(page.locator("#card-helpful pre")).to_be_visible()
    expect(page.locator("#card-sneaky")).to_contain_text("wrote nothing to this problem")
    expect(open_page(f"{url}/rounds").get_by_role("alert").first).to_contain_text("test-sneaky.parquet")
    expect(open_page(f"{url}/evaluations").get_by_role("alert")).to_contain_text("evaluations.parquet is")
    page = open_page(f"{url}/score")
    page.get_by_role("button", name="Fill in an example").click()
    expect(page.get_by_label("Solution, a step on each line")).not_to_be_empty()
    page.get_by_role("button", name="Score", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("model.safetensors is damaged")


def test_a_run_without_a_finished_round_is_shown(serve, open_page, run_copy):
    for name in ("metrics.jsonl", "state.json", "events.jsonl"):  # state.json describes metrics.jsonl
        (run_copy / name).unlink()
    put_back = put_aside(run_copy, "pool", "verifier", "evaluation")
    url, _ = serve(run_copy)
    for path, message in {
        "": "has no solutions yet",
        "rounds": "There is nothing to plot yet",
        "verifiers": "No round of this run was evaluated with these figures yet",
        "score": "has no verifier yet",
    }.items():
        expect(open_page(f"{url}/{path}").locator(".notice").first).to_contain_text(message)
    put_back()
    check_all_is_there(url, open_page)


def test_a_new_round_appears_while_the_app_is_open(serve, open_page, run_copy):
    put_back = put_aside(run_copy, *(f"{name}/round-001" for name in ("pool", "verifier", "evaluation")))
    url, _ = serve(run_copy)
    page = open_page(url)
    expect(page.get_by_role("combobox", name="Round", exact=True)).to_have_value("0")
    put_back()
    expect(open_page(url).get_by_role("combobox", name="Round", exact=True)).to_have_value("1")
    expect(open_page(f"{url}/score").get_by_role("combobox", name="Verifier of")).to_have_value("round 1")


def put_aside(run: Path, *names: str) -> Callable[[], None]:
    """Move parts of a run out of its folder; returns a function that moves them back."""
    aside = run.parent.parent / "aside"
    for place, name in enumerate(names):
        (aside / str(place)).parent.mkdir(exist_ok=True)
        shutil.move(run / name, aside / str(place))
    return lambda: [shutil.move(aside / str(place), run / name) for place, name in enumerate(names)]


def check_all_is_there(url: str, open_page) -> None:
    """Check that every page shows the last round and can be used."""
    page = open_page(url)
    expect(page.get_by_role("combobox", name="Round", exact=True)).to_have_value("1")
    page.locator("a.row").first.click()
    page.keyboard.press("n")
    expect(page.locator("#card-helpful pre").first).to_be_visible()
    page = open_page(f"{url}/score")
    expect(page.get_by_role("combobox", name="Verifier of")).to_have_value("round 1")
    page.get_by_role("button", name="Fill in an example").click()
    expect(page.get_by_label("Solution, a step on each line")).not_to_be_empty()
