"""The legibility study in a browser."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from pvg_hf.experimental.study.access import Owner
from tests.support.loopback_hub import OWNER, TOKEN, LoopbackHub, serving
from tests.support.ports import find_free_port
from tests.support.proxy import PREFIX, serving_under_a_path


def answers(folder) -> list[dict]:
    file = folder / "answers.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def begin(page) -> None:
    page.get_by_role("button", name=re.compile("Show the (first|next) solution")).click()
    expect(page.locator(".countdown")).to_be_visible()
    expect(page.locator("#judge-6")).to_be_visible()  # the buttons come with the solution, and a moment later


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "study"


def test_answers_survive_a_reload_and_a_crash(serve_study, open_page, arithmetic_run, folder):
    url, stack = serve_study(arithmetic_run, folder=folder, num_solutions=4)
    page = open_page(url)
    begin(page)
    expect(page).to_have_url(re.compile(r"participant=\w+"))
    assert not re.search("helpful|sneaky|round-", page.locator("#study-panel").inner_html())
    page.keyboard.press("6")
    expect(page.locator("#study-panel")).to_contain_text("1 of 4 done")
    begin(page)
    shown = page.locator("#study-panel pre").all_inner_texts()
    page.wait_for_function("document.querySelector('.countdown strong').textContent < 44")
    page.reload()
    expect(page.locator("#study-panel pre").first).to_have_text(shown[0], use_inner_text=True)
    assert page.locator("#study-panel pre").all_inner_texts() == shown
    assert int(page.locator(".countdown strong").inner_text()) < 45  # the clock went on
    page.locator("#judge-1").click()
    expect(page.locator("#study-panel")).to_contain_text("2 of 4 done")
    begin(page)
    address = page.url.removeprefix(url).lstrip("/")
    stack.close()  # the server is gone, with a solution on show
    url, _ = serve_study(arithmetic_run, folder=folder, num_solutions=4)
    page = open_page(f"{url}/{address}")
    expect(page.locator("#study-panel")).to_contain_text("2 of 4 done")
    for number in (3, 4):
        begin(page)
        page.locator("#judge-3").dblclick()
        expect(page.locator("#study-panel")).to_contain_text("All 4" if number == 4 else f"{number} of 4 done")
    rows = answers(folder)
    assert [(row["judgment"], row["confidence"]) for row in rows] == [
        ("correct", 3),
        ("flawed", 3),
        ("flawed", 1),
        ("flawed", 1),
    ]
    assert [row["num_shown"] for row in rows] == [1, 1, 2, 1]
    assert len({row["item"] for row in rows}) == 4


def test_the_countdown_ends_a_solution(serve_study, open_page, arithmetic_run, folder):
    url, _ = serve_study(arithmetic_run, folder=folder, seconds=8.0, num_solutions=2)
    page = open_page(f"{url}/?participant=ann")
    begin(page)
    expect(page.locator("#study-panel")).to_contain_text("Time ran out for that solution")
    expect(page.locator("#study-panel")).to_contain_text("1 of 2 done")
    expect(page.locator("#study-go")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#judge-4")).to_be_visible()
    page.keyboard.press("4")
    expect(page.locator("#study-panel")).to_contain_text("Thank you")
    assert [row["judgment"] for row in answers(folder)] == ["time_ran_out", "correct"]


def test_a_time_out_that_a_participant_sends_early_is_not_recorded(serve_study, open_page, arithmetic_run, folder):
    url, _ = serve_study(arithmetic_run, folder=folder, num_solutions=2)
    page = open_page(url)
    begin(page)
    solution = page.locator("#study-panel pre").last.inner_text()
    page.evaluate("document.querySelector('#time-ran-out').click()")
    page.reload()
    expect(page.locator("#study-panel pre").last).to_have_text(solution, use_inner_text=True)
    assert answers(folder) == []


def test_answers_are_committed_on_sigterm(open_page, arithmetic_run, folder, tmp_path, repository):
    hub = LoopbackHub()
    port = find_free_port()
    command = [sys.executable, "-m", "pvg_hf.experimental.study", arithmetic_run, "--port", str(port)]
    command += ["--dir", folder, "--repo", f"{OWNER}/answers"]
    settings = {"HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    with serving(hub) as endpoint:
        environment = {**os.environ, **settings, "HF_ENDPOINT": endpoint}
        app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=repository, env=environment)
        try:
            next(line for line in app.stdout if f":{port}" in line)
            page = open_page(f"http://127.0.0.1:{port}")
            begin(page)
            page.keyboard.press("1")
            expect(page.locator("#study-panel")).to_contain_text("1 of 12 done")
            app.send_signal(signal.SIGTERM)
            assert app.wait(timeout=120) == 0
        finally:
            app.kill()
    (row,) = answers(folder)
    assert [json.loads(hub.repo("answers").files()["answers.jsonl"])] == [row]
    assert row["judgment"] == "flawed"


def test_results_and_sheets_are_shown_to_the_owner(serve_study, open_page, arithmetic_run, folder, tmp_path):
    owner = Owner()
    url, _ = serve_study(arithmetic_run, folder=folder, num_solutions=4, owner=owner)
    page = open_page(f"{url}/?participant=ann")
    assert page.locator("#study-results, #draw-sheets").count() == 0
    begin(page)
    page.keyboard.press("5")
    expect(page.locator("#study-panel")).to_contain_text("1 of 4 done")
    page = open_page(f"{url}/owner", profile=page.context)
    expect(page.locator(".notice")).to_contain_text("open the link that the app printed")
    expect(page.locator("#draw-sheets")).to_be_hidden()
    page.goto(owner.link(url))
    expect(page.locator("#study-results table tbody tr")).to_have_count(1)
    expect(page.locator("#study-results img")).to_be_visible()
    assert page.url == f"{url}/owner"  # without the token
    page.get_by_role("button", name="Draw new sheets").click()
    expect(page.locator("#download-sheets")).to_be_enabled()
    with page.expect_download() as download:
        page.locator("#download-sheets").click()
    sheet = tmp_path / "sheets.csv"
    download.value.save_as(sheet)
    assert sheet.read_text(encoding="utf-8-sig").startswith("participant,position,item,problem,solution,judgment")
    sheet.write_text(sheet.read_text(encoding="utf-8-sig").replace(",,,\n", ",flawed,2,20\n"), encoding="utf-8")
    page.locator("#filled-sheets input[type=file]").set_input_files(sheet)
    expect(page.locator("#sheets-taken")).to_contain_text("New answers: 4. Known already: 0")
    assert len(answers(folder)) == 5


def test_the_links_of_participants_and_owner_stay_within_a_proxys_path(
    serve_study, open_page, arithmetic_run, folder, monkeypatch
):
    monkeypatch.setenv("GRADIO_ROOT_PATH", PREFIX)
    owner = Owner()
    url, _ = serve_study(arithmetic_run, folder=folder, num_solutions=2, owner=owner)
    with serving_under_a_path(url) as address:
        page = open_page(f"{address}/")
        outside = []
        page.on("request", lambda request: outside.append(request.url) if PREFIX not in request.url else None)
        begin(page)
        expect(page).to_have_url(re.compile(rf"{PREFIX}/\?participant=\w+"))
        page.keyboard.press("6")
        expect(page.locator("#study-panel")).to_contain_text("1 of 2 done")
        link = page.url
        again = open_page(link)  # in another browser
        expect(again.locator("#study-panel")).to_contain_text("1 of 2 done")
        page.goto(owner.link(address))
        expect(page).to_have_url(f"{address}/owner")
        page.locator("#show-results").click()
        expect(page.locator("#study-results")).not_to_be_empty()
        assert [url for url in outside if not url.startswith(("data:", "blob:"))] == []
