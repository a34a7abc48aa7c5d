"""The page "Rounds": results as plots and numbers."""

import threading
from pathlib import Path

import gradio as gr
import pandas as pd

from pvg_hf.app.events import SLOW
from pvg_hf.app.header import build_verdict
from pvg_hf.app.render import heading, notice, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.verifiers_page import VERIFIER_PLOTS
from pvg_hf.core.files import write_text
from pvg_hf.report.page import embed
from pvg_hf.report.plots import PLOTS
from pvg_hf.report.tables import judgement_tables, rounds_table
from pvg_hf.run.layout import JUDGING
from pvg_hf.run.read import RunData


def build_rounds_page(demo: gr.Blocks, run: OpenRun, folder: Path) -> None:
    """Build the page. It must be called within the context of `demo`; `folder` is for temporary files."""
    gr.HTML(heading(f"{run.name}: rounds", "From the run's own figures on test problems; all labels are clean."))
    build_verdict(demo, run)
    figures = gr.HTML(notice("Drawing the plots."), elem_id="figures")
    download = gr.DownloadButton("Download all figures (CSV)", elem_id="download", interactive=False)

    drawn: list[tuple[RunData, str, str]] = []  # cache of the last figures, with their HTML and CSV file
    drawing = threading.Lock()  # all visitors share the plots, so that they are drawn once

    def draw(data: RunData) -> tuple[str, str]:
        with drawing:
            if not drawn or drawn[0][0] is not data:
                path = folder / f"{run.name}-figures.csv"
                # Atomic: Gradio may be copying the old file for a download.
                write_text(path, figures_frame(data).to_csv(index=False))
                drawn[:] = [(data, _show_rounds(data), str(path))]
            return drawn[0][1:]

    def load():
        try:
            data = run.data()
        except (ValueError, OSError) as err:  # pyarrow raises either for a damaged Parquet file
            damage = "\n".join(run.index().damage) or str(err)
            return notice(damage, kind="problem"), gr.DownloadButton(interactive=False)
        page, path = draw(data)
        is_evaluated = bool(data.evaluated)
        return page, gr.DownloadButton(value=path if is_evaluated else None, interactive=is_evaluated)

    demo.load(load, None, [figures, download], **SLOW)


def _show_rounds(data: RunData) -> str:
    makers = [make_plot for make_plot in PLOTS if make_plot not in VERIFIER_PLOTS]  # these are on the page "Verifiers"
    plots = [plot for make_plot in makers if (plot := make_plot(data)) is not None]
    images = [embed(plot, plot.to_png()) for plot in plots]
    return render("rounds", images=images, table=rounds_table(data), judged=judgement_tables(data))


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
