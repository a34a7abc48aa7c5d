"""The page "Rounds": results as plots and numbers, and a comparison with another round or run."""

import threading
from pathlib import Path

import gradio as gr
import pandas as pd

from pvg_hf.app.events import SLOW
from pvg_hf.app.header import build_verdict
from pvg_hf.app.render import heading, notice, render
from pvg_hf.app.runs import OpenRun, sibling_runs
from pvg_hf.app.verifiers_page import VERIFIER_PLOTS
from pvg_hf.core.files import write_text
from pvg_hf.evaluation.catalogue import explain, heading_of
from pvg_hf.evaluation.comparison import ComparedFigure, compare_rounds
from pvg_hf.evaluation.verifier_verdict import compare_verifiers
from pvg_hf.report.page import embed
from pvg_hf.report.plots import PLOTS
from pvg_hf.report.tables import MISSING, Table, TableCell, figure_cell, judgement_tables, rounds_table
from pvg_hf.run.layout import JUDGING
from pvg_hf.run.read import RoundData, RunData


def build_rounds_page(demo: gr.Blocks, run: OpenRun, folder: Path) -> None:
    """Build the page. It must be called within the context of `demo`; `folder` is for temporary files."""
    gr.HTML(heading(f"{run.name}: rounds", "From the run's own figures on test problems; all labels are clean."))
    build_verdict(demo, run)
    figures = gr.HTML(notice("Drawing the plots."), elem_id="figures")
    download = gr.DownloadButton("Download all figures (CSV)", elem_id="download", interactive=False)
    gr.HTML("<h2>Compare two rounds</h2>")
    others = {run.name: run.folder.root, **sibling_runs(run.folder.root)}
    with gr.Row():
        ours = gr.Dropdown([], label=f"Round of {run.name}", elem_id="our-round", min_width=140)
        other = gr.Dropdown(list(others), value=run.name, label="Run", elem_id="other-run", min_width=140)
        theirs = gr.Dropdown([], label="Its round", elem_id="their-round", min_width=140)
    comparison = gr.HTML(elem_id="comparison")

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
            return (
                notice("\n".join(run.index().damage) or str(err), kind="problem"),
                gr.DownloadButton(interactive=False),
                gr.Dropdown([]),
                gr.Dropdown([]),
            )
        rounds = _round_indices(data)
        page, path = draw(data)
        file = gr.DownloadButton(value=path if rounds else None, interactive=bool(rounds))
        ends = (max(rounds, default=None), min(rounds, default=None))
        return page, file, *(gr.Dropdown(rounds, value=end) for end in ends)

    def choose(name: str):
        try:
            rounds = _round_indices(OpenRun(others[name]).data())
        except (ValueError, OSError) as err:
            return gr.Dropdown([], value=None), notice(str(err), kind="problem")
        return gr.Dropdown(rounds, value=rounds[-1] if rounds else None), ""

    def compare(our_round: int | None, name: str, their_round: int | None):
        if our_round is None or their_round is None:
            return notice("Choose an evaluated round on both sides.")
        try:
            return _compare(run, our_round, OpenRun(others[name]), their_round)
        except (ValueError, OSError) as err:  # a file was damaged after it was chosen
            return notice(str(err), kind="problem")

    demo.load(load, None, [figures, download, ours, theirs], **SLOW)
    other.input(choose, other, [theirs, comparison], **SLOW)
    gr.on([ours.change, theirs.change], compare, [ours, other, theirs], comparison, **SLOW)


def _round_indices(data: RunData) -> list[int]:
    return [found.round_index for found in data.evaluated]


def _show_rounds(data: RunData) -> str:
    makers = [make_plot for make_plot in PLOTS if make_plot not in VERIFIER_PLOTS]  # these are on the page "Verifiers"
    plots = [plot for make_plot in makers if (plot := make_plot(data)) is not None]
    images = [embed(plot, plot.to_png()) for plot in plots]
    return render("rounds", images=images, table=rounds_table(data), judged=judgement_tables(data))


def _compare(run: OpenRun, our_round: int, other: OpenRun, their_round: int) -> str:
    data = run.data()
    left, right = solutions_of(data, our_round), solutions_of(other.data(), their_round)
    if left is None or right is None:
        return notice("One of the rounds is not evaluated yet.", kind="problem")
    compared = compare_rounds(left, right)
    ours, theirs = f"{run.name}, round {our_round}", f"{other.name}, round {their_round}"
    is_paired = any(figure.num_shared for figure in compared)
    table = comparison_table(compared, ours, theirs)
    # Verifiers of one run have scored the same pools.
    is_one_run = run.folder.root == other.folder.root and our_round != their_round
    statements = (
        compare_verifiers(data.evaluated, *sorted((our_round, their_round), reverse=True)) if is_one_run else []
    )
    return render("comparison", table=table, ours=ours, theirs=theirs, is_paired=is_paired, statements=statements)


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


def solutions_of(run: RunData, round_index: int) -> RoundData | None:
    """Data of a round; `None` if it is not evaluated."""
    return next((data for data in run.evaluated if data.round_index == round_index), None)


def comparison_table(compared: list[ComparedFigure], ours: str, theirs: str) -> Table:
    """Table with one row per figure: its value on both sides, and the difference."""
    rows = []
    for figure in compared:
        sides = [figure_cell(figure.ours, 3), figure_cell(figure.theirs, 3)]
        cells = [*sides, _difference_cell(figure), TableCell(f"{figure.num_shared:,}")]
        rows.append((heading_of(figure.name), cells))
    headings = ["", ours, theirs, "difference", "shared problems"]
    return Table(headings, rows, explain(figure.name for figure in compared))


def _difference_cell(figure: ComparedFigure) -> TableCell:
    value = figure.difference.value
    if value is None:
        return TableCell(MISSING)
    return TableCell(f"{value:+.3f}", figure_cell(figure.difference, 3).interval)
