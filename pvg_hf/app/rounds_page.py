"""The page "Rounds": the verdict, results as plots and numbers."""

import threading
from pathlib import Path

import gradio as gr
import pandas as pd

from pvg_hf.app.events import SLOW
from pvg_hf.app.header import build_verdict
from pvg_hf.app.plots import ROUND_PLOTS, build_plots, update_plots
from pvg_hf.app.render import heading, notice, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.core.files import write_text
from pvg_hf.report.tables import judgement_tables, rounds_table
from pvg_hf.run.layout import JUDGING
from pvg_hf.run.read import RunData


def build_rounds_page(demo: gr.Blocks, run: OpenRun, folder: Path) -> None:
    """Build the page. It must be called within the context of `demo`; `folder` is for temporary files."""
    gr.HTML(heading(f"{run.name}: rounds", "From the run's own figures on test problems; all labels are clean."))
    build_verdict(demo, run)
    plots = build_plots(ROUND_PLOTS)
    figures = gr.HTML(elem_id="figures")
    writing = threading.Lock()  # for visitors at once
    download = gr.DownloadButton("Download all figures (CSV)", elem_id="download", interactive=False)

    def load():
        try:
            data = run.data()
        except (ValueError, OSError) as err:  # pyarrow raises either for a damaged Parquet file
            damage = notice("\n".join(run.index().damage) or str(err), kind="problem")
            return damage, gr.DownloadButton(interactive=False), *(gr.skip() for _ in plots)
        return show_rounds(data), _file(data), *update_plots(ROUND_PLOTS, data)

    def _file(data: RunData) -> gr.DownloadButton:
        if not data.evaluated:
            return gr.DownloadButton(interactive=False)
        path = folder / f"{run.name}-figures.csv"
        with writing:
            write_text(path, figures_frame(data).to_csv(index=False))  # atomic: Gradio may be copying the old file
        return gr.DownloadButton(value=str(path), interactive=True)

    demo.load(load, None, [figures, download, *plots], **SLOW)


def show_rounds(data: RunData) -> str:
    """Render the figures of all rounds as tables."""
    return render("rounds", table=rounds_table(data), judged=judgement_tables(data), has_begun=bool(data.rounds))


def figures_frame(run: RunData) -> pd.DataFrame:
    """
    All figures of all rounds: `round_index`, `figure` (its name in `metrics.json`), `value`, `low`, `high`, `n`.

    Those of the evaluations that followed the rounds are named as in `metrics.jsonl`, `judging/NAME/...`.
    """
    rows = [
        {"round_index": data.round_index, "figure": name, **figure.to_dict()}
        for data in run.evaluated
        for name, figure in data.figures.items()
    ]
    rows += [
        {"round_index": judgement.round_index, "figure": f"{JUDGING}/{judgement.name}/{key}", **figure.to_dict()}
        for judgement in run.judgements
        for key, figure in judgement.figures.items()
    ]
    return pd.DataFrame(rows, columns=["round_index", "figure", "value", "low", "high", "n"])
