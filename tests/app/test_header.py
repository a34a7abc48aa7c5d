"""The header of every page, and the verdict on the page "Rounds"."""

import json
from html import unescape

import pytest
from playwright.sync_api import expect

from pvg_hf.app.header import show_header, show_verdict
from pvg_hf.app.runs import OpenRun
from pvg_hf.report.headline import write_headline
from pvg_hf.run.read import load_run


def test_the_header_names_run_recipe_models_seed_state_and_alerts(arithmetic_run):
    header = show_header(OpenRun(arithmetic_run))
    for fact in (
        "small",
        "task arithmetic",
        "reward ",
        "2 rounds",
        "prover arithmetic",
        "seed 0",
        "Finished: 2 rounds",
    ):
        assert fact in header
    assert "round 1 evaluate: " in header


@pytest.mark.parametrize(
    ("suffix", "words"), [("", "commit 0123456789<"), ("-dirty", "commit 0123456789 with changes")]
)
def test_the_header_names_the_commit_and_whether_it_had_changes(run_copy, suffix, words):
    file = run_copy / "run.json"
    environment = json.loads(file.read_text()) | {"git_revision": "0123456789" * 4 + suffix}
    file.write_text(json.dumps(environment))
    assert words in show_header(OpenRun(run_copy))


def test_the_header_lists_alerts_and_the_split_of_the_last_phases_time(run_copy):
    split = {kind: {"seconds": part, "tokens": 0, "flops": 0} for kind, part in (("writing", 3.0), ("grading", 1.0))}
    phase = {"event": "phase_finished", "phase": "mint", "round": 7, "seconds": 4.0, "split": split, "time": 9e9}
    alert = {
        "event": "alert",
        "phase": "prover",
        "round": 0,
        "kind": "sneaky_collapse",
        "message": "7 % < 10 %",
        "time": 9e9,
    }
    with (run_copy / "events.jsonl").open("a") as events:
        events.writelines(json.dumps(line) + "\n" for line in (phase, alert))
    header = show_header(OpenRun(run_copy))
    assert "round 7 mint: 4 s (75 % writing, 25 % grading)" in header.replace("4.0 s", "4 s")
    assert "sneaky collapse (1)" in header
    assert "round 0 prover: 7 % &lt; 10 %" in header


def test_the_verdict_is_that_of_the_report(arithmetic_run):
    headline = write_headline(load_run(arithmetic_run).evaluated)
    assert f'class="headline {headline.mark}"' in show_verdict(OpenRun(arithmetic_run))
    assert headline.text in unescape(show_verdict(OpenRun(arithmetic_run))).replace("\u00a0", " ")


def test_a_page_begins_with_the_header_and_rounds_with_the_verdict(app, open_page, arithmetic_run):
    page = open_page(f"{app}/rounds")
    expect(page.locator("#run-header")).to_contain_text("Finished: 2 rounds")
    expect(page.locator("#verdict .headline")).to_contain_text(write_headline(load_run(arithmetic_run).evaluated).text)
