"""The page of a study's owner: results, and sheets for people without the app."""

import secrets
import tempfile
from pathlib import Path

import gradio as gr
import pandas as pd

from pvg_hf.app.events import SLOW, shown_if
from pvg_hf.app.render import heading, notice
from pvg_hf.app.runs import OpenRun
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.experimental.study.access import Owner
from pvg_hf.experimental.study.page import render
from pvg_hf.experimental.study.participants import Study
from pvg_hf.experimental.study.results import FIGURES, plot_study, study_results
from pvg_hf.experimental.study.sheets import read_sheets, write_sheets
from pvg_hf.report.page import embed
from pvg_hf.report.tables import Table, TableCell, figure_cell

MAX_SHEETS = 50
_HEADINGS = {
    "accuracy": "accuracy",
    "accuracy_on_correct": "accuracy on correct ones",
    "accuracy_on_flawed": "accuracy on flawed ones",
    "seconds": "seconds",
    "time_ran_out": "time ran out",
}


def build_owner_page(demo: gr.Blocks, run: OpenRun, study: Study, owner: Owner, folder: Path) -> None:
    """
    Build the page. It must be called within the context of `demo`.

    Events on the page are refused unless the owner sent them. `folder` is for temporary files.
    """
    gr.HTML(
        heading(
            f"{run.name}: results of the study",
            "For the study's owner. Not for participants: it shows which rounds were hard.",
        )
    )
    state = gr.HTML(elem_classes="state")
    if owner.account is not None:
        gr.LoginButton()
    with gr.Column(elem_classes=shown_if(False)) as body:
        results = gr.HTML(elem_id="study-results")
        refresh = gr.Button("Refresh the results", elem_id="show-results")
        gr.HTML("<h2>Sheets for people without the app (CSV)</h2>")
        with gr.Row(elem_id="sheets-row"):
            number = gr.Number(
                1,
                label="Sheets, one for each person",
                precision=0,
                minimum=1,
                maximum=MAX_SHEETS,
                elem_id="num-sheets",
            )
            make = gr.Button("Draw new sheets", elem_id="draw-sheets")
            file = gr.DownloadButton("Download", interactive=False, elem_id="download-sheets")
        drawn = gr.HTML(elem_id="sheets-drawn")
        filled = gr.File(label="Filled-in sheets", file_types=[".csv"], elem_id="filled-sheets")
        taken = gr.HTML(elem_id="sheets-taken")

    def load(request: gr.Request):
        if not owner.sent(request.request):
            return notice(owner.advice), gr.Column(elem_classes=shown_if(False)), ""
        return "", gr.Column(elem_classes=shown_if(True)), show_results(study)

    def refresh_results(request: gr.Request):
        owner.check(request)
        return show_results(study)

    def draw(count: int | None, request: gr.Request):
        owner.check(request)
        try:
            path = _write(study, count, folder)
        except (ValueError, OSError) as err:  # a full study, one of another process, no room
            return gr.DownloadButton(interactive=False), notice(str(err), kind="problem")
        return gr.DownloadButton(value=path, interactive=True), notice("The sheets are drawn. Download them.")

    def upload(path: str, request: gr.Request):
        owner.check(request)
        return record_sheets(study, path)

    demo.load(load, None, [state, body, results], **SLOW)
    refresh.click(refresh_results, None, results, **SLOW)
    make.click(draw, number, [file, drawn], **SLOW)
    filled.upload(upload, filled, taken, **SLOW)


def show_results(study: Study) -> str:
    answers = study.answers()
    results = study_results(answers)
    plot = plot_study(results, study.seconds)
    return render(
        "study_results",
        image=None if plot is None else embed(plot, plot.to_png()),
        table=results_table(results),
        num_participants=len({row["participant"] for row in answers}),
    )


def results_table(results: pd.DataFrame) -> Table:
    """Table of the results, with one row per round and role."""
    rows = [
        (
            f"{_source(row['round_index'])}, {row['role']}",
            [
                *(figure_cell(row[name], 1 if name == "seconds" else 2) for name in FIGURES),
                TableCell(str(row["num_participants"])),
            ],
        )
        for row in results.to_dict("records")
    ]
    return Table(["", *(_HEADINGS[name] for name in FIGURES), "people"], rows)


def _source(round_index: int) -> str:
    return "base" if round_index == BASE_ROUND else f"round {round_index}"


def record_sheets(study: Study, path: str) -> str:
    """Record the answers in a file of filled-in sheets, and return a message as HTML."""
    try:
        num_new, num_known = read_sheets(study, Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as err:
        text = (
            f"The file is not text in UTF-8 (byte {err.start} is 0x{err.object[err.start]:02x}), and nothing was"
            " recorded."
        )
        return notice(
            f"{text}\nSave it as “CSV UTF-8 (comma delimited)” in your spreadsheet, and upload it again.",
            kind="problem",
        )
    except ValueError as err:
        return notice(str(err), kind="problem")
    return notice(f"New answers: {num_new}. Known already: {num_known}.")


def _write(study: Study, count: int | None, folder: Path) -> str:
    ids = [f"sheet-{secrets.token_hex(4)}" for _ in range(max(1, min(MAX_SHEETS, int(count or 1))))]
    path = Path(tempfile.mkdtemp(dir=folder)) / "sheets.csv"
    # Spreadsheets recognise UTF-8 by the byte order mark.
    path.write_text(write_sheets(study, ids), encoding="utf-8-sig")
    return str(path)
