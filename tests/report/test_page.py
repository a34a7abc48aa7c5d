"""The report: one file, complete at any time, and safe to open whatever a model wrote."""

import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser

import pandas as pd
import pytest

from pvg_hf import load_recipe
from pvg_hf.core.files import write_text
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.report import write_report
from pvg_hf.report.examples import NUM_EARLIER_EXAMPLES, choose_examples
from pvg_hf.report.page import describe_rewards
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import load_run

HOSTILE = '</pre><script>alert(1)</script><img src=x onerror="alert(2)">\n{{ 7 * 7 }} & <b>#### 5</b>'
VOID_TAGS = {"meta", "img", "br", "link"}


class Page(HTMLParser):
    """Parses tags with their attributes and the visible text, and checks that every tag is closed."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.texts: dict[str, list[str]] = {}  # by tag, one for each that holds text
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.fixture(scope="module")
def finished(run_template, tmp_path_factory):
    """A finished run with its report, not to be changed."""
    folder = shutil.copytree(run_template(3), tmp_path_factory.mktemp("finished") / "synthetic")
    return folder, Page(write_report(folder).read_text(encoding="utf-8"))


def test_the_page_holds_everything_a_reader_looks_for(finished):
    _, page = finished
    assert page.texts["h2"] == [
        "Does a later verifier accept fewer mistakes?",
        "A mistake beside a correct solution",
        "The rounds in numbers",
        "Results round by round",
        "How each prover phase went",
        "ROC curves of every verifier",
        "Can the verifier be trusted to choose?",
        "What the verifier's scores look like",
        "Which mistakes are made",
        "Every verifier on every prover's solutions",
        "Each verifier on its own prover's solutions",
        "What the verifier accepts",
        "Answers to test problems",
        "The last verifier, by source of the solutions",
        "Does the verifier check, or recognise the role?",
        "What the verifiers were trained on, and what was left out",
        "Inputs cut when they were scored",
        "Solutions side by side",
        "Diversity and form, per role",
        "By difficulty, last round",
        "Times per phase",
        "What the time was spent on",
        "Alerts",
        "How to reproduce this run",
    ]
    assert "Not as hoped:" in page.texts["strong"]
    assert "Finished: 3 rounds" in page.text
    assert "round 1, mint: mint of 1" in page.text
    assert "7% of the sneaky solutions" in page.text
    assert "versions.trl: 1.16.0" in page.text
    assert "bootstrap_samples: 200" in page.text  # the recipe


def test_every_example_with_a_known_flaw_has_its_line_marked(finished):
    folder, page = finished
    examples = [
        example.sneaky
        for data in load_run(folder).rounds
        for example in choose_examples(data, 6 if data.round_index == 2 else NUM_EARLIER_EXAMPLES)
    ]
    marked = [line.text for example in examples for line in example.lines if line.note]
    assert len(marked) > 6
    assert set(marked) <= set(page.texts["mark"])
    assert len(page.texts["mark"]) >= len(marked)  # a helpful solution that is right may have a flaw too


def test_the_page_is_one_file_without_scripts_or_links_outside(finished):
    folder, page = finished
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    sources = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert len(sources) == 8
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!data:|#)|url\(|@import", text)


def test_the_header_names_origin_command_and_contents(finished):
    folder, page = finished
    targets = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(targets) <= {f"#{name}" for name in ids}
    assert len(targets) >= len(page.texts["h2"])  # the contents, and the alerts of the verdict
    assert "3 rounds, seed" in page.text
    run = load_run(folder)
    times = [event["time"] for event in run.events if "time" in event]
    assert (f"{datetime.fromtimestamp(times[0], UTC):%Y-%m-%d %H:%M}" in page.text) if times else True
    assert f"trl {run.environment['versions']['trl']}" in page.text
    root = RunFolder.of(run.recipe).root  # not the folder that was read, which is a path of this machine
    assert f"pvg play {root} name={run.recipe.name}-again" in page.text


@pytest.mark.parametrize(
    ("rounds", "text"),
    [
        ({}, "reward standardized_src"),
        ({1: {"prover": {"reward": "cgc"}}}, "reward standardized_src, in round 1 cgc"),
        ({1: {"prover": {"beta": 0.1}}}, "reward standardized_src"),
    ],
    ids=["one", "another in a round", "another setting"],
)
def test_the_header_names_the_reward_of_each_round(rounds, text):
    assert describe_rewards(load_recipe({"num_rounds": 2, "rounds": rounds})) == text


def test_a_flagged_alert_leads_to_its_message(finished):
    _, page = finished
    alerts = [attributes["id"] for tag, attributes in page.tags if tag == "li" and "id" in attributes]
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert alerts
    assert all(f"#{alert}" in links for alert in alerts)
    assert "sneaky collapse: the sneaky role hardly writes" in page.text
    assert "goodharting: the scores" not in page.text  # there was no such alert


def test_plots_are_saved_next_to_the_page_without_temporary_files(finished):
    folder, _ = finished
    assert sorted(path.name for path in (folder / "plots").iterdir()) == [
        "best_of_n.png",
        "dynamics.png",
        "flaws.png",
        "pools.png",
        "roc.png",
        "rounds.png",
        "scores.png",
        "time_split.png",
    ]
    assert not list(folder.rglob("*.partial"))


def test_the_report_depends_on_the_run_only(finished, make_run):
    folder, _ = finished
    pages = [
        write_report(make_run(3)).read_text(encoding="utf-8"),
        (folder / "report.html").read_text(encoding="utf-8"),
    ]
    # Compared by lines: pytest would spend minutes on the difference of two pages of megabytes.
    differing = [lines for lines in zip(*(page.splitlines() for page in pages), strict=True) if len(set(lines)) > 1]
    assert [(line[:200], other[:200]) for line, other in differing[:3]] == []


def test_what_a_model_wrote_is_shown_as_text(make_run):
    folder = make_run(1)
    path = folder / "pool" / "round-000" / "test-sneaky.parquet"
    rows = pd.read_parquet(path)
    row = rows.index[~rows["correct"] & (rows["outcome"] == "PROOF_INVALID")][0]
    rows.loc[row, ["solution", "answer", "problem", "reference"]] = HOSTILE
    rows.loc[row, "score"] = 99.0  # the most convincing mistake is always shown
    rows.loc[row, "first_flaw_step"] = 1
    rows.loc[row, "first_flaw_kind"] = "<i>odd</i>"
    rows.to_parquet(path)
    with (folder / "events.jsonl").open("a") as events:
        events.write(
            '{"time": 1, "event": "alert", "phase": "mint", "round": 2, "kind": "<u>", "message": "<script>"}\n'
        )
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert not {"script", "b", "i", "u"} & {tag for tag, _ in page.tags}
    assert all("onerror" not in attributes for _, attributes in page.tags)
    assert HOSTILE.split("\n")[0] in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "first flaw: <i>odd</i>" in page.text
    assert "<script>" in page.text


@pytest.mark.parametrize(
    ("num_finished", "place"),
    [
        (0, "is in the prover phase (round 0 of rounds 0-2, step 39 of 40)"),
        (1, "is in the prover phase (round 1 of rounds 0-2, step 35 of 40)"),
    ],
)
def test_an_unfinished_run_is_reported_with_its_phase(make_run, num_finished, place):
    page = Page(write_report(make_run(num_finished)).read_text(encoding="utf-8"))
    assert f"Unfinished: the run {place}" in page.text
    assert ("No verdict yet" in page.text) == (num_finished == 0)
    assert ("The rounds in numbers" in page.text) == (num_finished > 0)


def test_a_run_with_nothing_but_its_recipe_is_reported(make_run):
    folder = make_run(0)
    for name in ("events.jsonl", "metrics.jsonl", "run.json"):
        (folder / name).unlink()
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert "no phase of 3 rounds has begun" in page.text
    assert not (folder / "plots").exists()


def test_a_folder_without_a_recipe_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no recipe\.yaml"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    "damage", [lambda lines: [*lines[:-1], b"\xff{\n"], lambda lines: lines[:1]], ids=["broken", "lost"]
)
def test_damaged_or_lost_events_are_reported(make_run, damage):
    folder = make_run(1)
    write_text(folder / "state.json", json.dumps({"finished": ["bootstrap"] + ["round-000/verifier"] * 4}))
    events = folder / "events.jsonl"
    events.write_bytes(b"".join(damage(events.read_bytes().splitlines(keepends=True))))
    assert "line(s) of events.jsonl are damaged or lost" in write_report(folder).read_text()


def test_a_failed_report_leaves_the_last_one(make_run):
    folder = make_run(0)
    first = write_report(folder).read_bytes()
    (folder / "metrics.jsonl").write_text("{broken\n{}\n", encoding="utf-8")
    with pytest.raises(DamagedFileError, match=r"metrics\.jsonl .*damaged"):
        write_report(folder)
    assert (folder / "report.html").read_bytes() == first


def test_judging_a_round_needs_neither_torch_nor_matplotlib():
    code = "import pvg_hf.evaluation.summary, sys; print({'torch', 'matplotlib'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_the_pilot_is_on_the_page(finished, tmp_path):
    assert "The pilot before the game" not in finished[1].text
    folder = RunFolder(shutil.copytree(finished[0], tmp_path / "run"))
    row = {"problem_id": "p", "problem": "2 + 2?", "solution": HOSTILE, "answer": "5", "num_tokens": 41}
    rows = [{**row, "role": role, "outcome": "PROOF_INVALID"} for role in ("base", "helpful", "sneaky")]
    write_text(folder.pilot, json.dumps({"settings": {}, "rows": rows}))
    page = Page(write_report(folder.root).read_text(encoding="utf-8"))
    assert "The pilot before the game" in page.text
    assert "wrong, base." in page.text
    assert "script" not in dict(page.tags)
    (folder.pilot).write_text("{")
    with pytest.raises(DamagedFileError, match="pilot"):
        write_report(folder.root)
