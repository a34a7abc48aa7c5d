"""The part of the study's page that is its owner's: results, and sheets for people without the app."""

import secrets
import tempfile
from pathlib import Path

import gradio as gr
import pandas as pd

from pvg_hf.data.schema import BASE_ROUND
from pvg_hf.evaluation.report.report import embed
from pvg_hf.evaluation.report.tables import Cell, Table, figure_cell
from pvg_hf.study.paper import read_sheets, write_sheets
from pvg_hf.study.plots import plot_study
from pvg_hf.study.results import FIGURES, study_results
from pvg_hf.study.study import Study
from space_app.events import SLOW
from space_app.render import notice, render

MAX_SHEETS = 50
_HEADINGS = {
    "accuracy": "accuracy",
    "accuracy_on_correct": "accuracy on correct ones",
    "accuracy_on_flawed": "accuracy on flawed ones",
    "seconds": "seconds",
    "time_ran_out": "time ran out",
}


def build_owner_part(study: Study, folder: Path) -> None:
    """Put results and sheets below the study, folded; `folder` is for temporary files."""
    with gr.Accordion(
        "Results (they tell which rounds were hard: not for participants)", open=False, elem_id="results"
    ):
        refresh = gr.Button("Show the results", elem_id="show-results")
        results = gr.HTML(elem_id="study-results")
    with gr.Accordion("Sheets for people without the app (CSV)", open=False, elem_id="sheets"):
        with gr.Row():
            number = gr.Number(1, label="Sheets, one for each person", precision=0, minimum=1, maximum=MAX_SHEETS)
            make = gr.Button("Draw new sheets", elem_id="draw-sheets")
            file = gr.DownloadButton("Download", interactive=False, elem_id="download-sheets")
        filled = gr.File(label="Filled-in sheets", file_types=[".csv"], elem_id="filled-sheets")
        taken = gr.HTML(elem_id="sheets-taken")
    refresh.click(lambda: show_results(study), None, results, **SLOW)
    make.click(
        lambda count: gr.DownloadButton(value=_write(study, count, folder), interactive=True), number, file, **SLOW
    )
    filled.upload(lambda path: take_down(study, path), filled, taken, **SLOW)


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
    """A row for each round and role."""
    rows = [
        (
            f"{_source(row['round_index'])}, {row['role']}",
            [
                *(figure_cell(row[name], 1 if name == "seconds" else 2) for name in FIGURES),
                Cell(str(row["num_participants"])),
            ],
        )
        for row in results.to_dict("records")
    ]
    return Table(["", *(_HEADINGS[name] for name in FIGURES), "people"], rows)


def _source(round_index: int) -> str:
    return "base" if round_index == BASE_ROUND else f"round {round_index}"


def take_down(study: Study, path: str) -> str:
    """What came of a file of filled-in sheets, as HTML."""
    try:
        num_new, num_known = read_sheets(study, Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as err:
        text = f"The file is not text in UTF-8 (byte {err.start} is 0x{err.object[err.start]:02x}), and nothing was recorded."
        return notice(
            f"{text}\nSave it as “CSV UTF-8 (comma delimited)” in your spreadsheet, and upload it again.",
            kind="problem",
        )
    except ValueError as err:
        return notice(str(err), kind="problem")
    return notice(f"{num_new} answer(s) were taken down; {num_known} were known already.")


def _write(study: Study, count: int | None, folder: Path) -> str:
    ids = [f"sheet-{secrets.token_hex(4)}" for _ in range(max(1, min(MAX_SHEETS, int(count or 1))))]
    path = Path(tempfile.mkdtemp(dir=folder)) / "sheets.csv"
    path.write_text(write_sheets(study, ids), encoding="utf-8-sig")  # spreadsheets read UTF-8 by its mark
    return str(path)
