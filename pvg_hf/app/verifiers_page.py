"""The page "Verifiers": every verifier of a run on every prover's test solutions."""

import gradio as gr

from pvg_hf.app.events import SLOW
from pvg_hf.app.plots import VERIFIER_PLOTS, build_plots, update_plots
from pvg_hf.app.render import heading, notice, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.evaluation.verifier_verdict import verifier_statements
from pvg_hf.report.tables import acceptance_tables, pools_tables


def build_verifiers_page(demo: gr.Blocks, run: OpenRun) -> None:
    """Build the page. It must be called within the context of `demo`."""
    gr.HTML(
        heading(
            f"{run.name}: verifiers",
            "Every verifier on the test solutions of every prover: does a later one accept fewer of the same"
            " mistakes?",
        )
    )
    statements = gr.HTML(elem_id="verifier-statements")
    plots = build_plots(VERIFIER_PLOTS)
    tables = gr.HTML(elem_id="verifiers")

    def load():
        try:
            data = run.data()
        except (ValueError, OSError) as err:  # pyarrow raises either for a damaged Parquet file
            return notice(str(err), kind="problem"), "", *(gr.skip() for _ in plots)
        found = render("verifiers", tables=[*pools_tables(data), *acceptance_tables(data)])
        said = render("statements", statements=verifier_statements(data.evaluated))
        return said, found, *update_plots(VERIFIER_PLOTS, data)

    demo.load(load, None, [statements, tables, *plots], **SLOW)
