"""The page "Verifiers": every verifier of a run on every prover's test solutions."""

import threading

import gradio as gr

from pvg_hf.app.events import SLOW
from pvg_hf.app.render import heading, notice, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.evaluation.verifier_verdict import verifier_statements
from pvg_hf.report.page import embed
from pvg_hf.report.plots import plot_pool_matrix, plot_roc
from pvg_hf.report.tables import acceptance_tables, pools_tables
from pvg_hf.run.read import RunData

VERIFIER_PLOTS = (plot_pool_matrix, plot_roc)


def build_verifiers_page(demo: gr.Blocks, run: OpenRun) -> None:
    """Build the page. It must be called within the context of `demo`."""
    gr.HTML(
        heading(
            f"{run.name}: verifiers",
            "Every verifier on the test solutions of every prover: does a later one accept fewer of the same"
            " mistakes?",
        )
    )
    page = gr.HTML(notice("Drawing the plots."), elem_id="verifiers")
    drawn: list[tuple[RunData, str]] = []  # cache of the last page, which all visitors share
    drawing = threading.Lock()

    def load() -> str:
        try:
            data = run.data()
        except (ValueError, OSError) as err:  # pyarrow raises either for a damaged Parquet file
            return notice(str(err), kind="problem")
        with drawing:
            if not drawn or drawn[0][0] is not data:
                drawn[:] = [(data, _show_verifiers(data, run))]
            return drawn[0][1]

    demo.load(load, None, page, **SLOW)


def _show_verifiers(data: RunData, run: OpenRun) -> str:
    plots = [plot for make_plot in VERIFIER_PLOTS if (plot := make_plot(data)) is not None]
    tables = [*pools_tables(data), *acceptance_tables(data)]
    return render(
        "verifiers",
        statements=verifier_statements(data.evaluated),
        images=[embed(plot, plot.to_png()) for plot in plots],
        tables=tables,
    )
