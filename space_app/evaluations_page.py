"""Evaluations: what a round's verifier wrote about a proof, beside it."""

import gradio as gr

from pvg_hf.browse.runs import OpenRun
from pvg_hf.evaluation.report.evaluations import has_hallucination, show_evaluation
from space_app.events import FAST, HIDDEN, choices_of, wire
from space_app.render import heading, notice, problems, render

KINDS = {
    "every evaluation": lambda rows: rows,
    "wrong score": lambda rows: rows[rows["predicted"] != rows["reference"]],
    "hallucinated issue": lambda rows: rows[rows["issues"].map(has_hallucination).astype(bool)],
    "flawed proof that got a 1": lambda rows: rows[(rows["reference"] == 0) & (rows["predicted"] == 1)],
}

NONE = (
    "No verifier of this run has written evaluations. Those of `verifier.kind: score` do, when a round is evaluated."
)


def build_evaluations_page(demo: gr.Blocks, run: OpenRun) -> None:
    """Put the page into `demo`, within whose context this is called."""
    gr.HTML(
        heading(
            f"{run.name}: evaluations",
            "What the verifier wrote about a test proof; issues are marked true or hallucinated.",
        )
    )
    state = gr.HTML(elem_classes="state")
    with gr.Column() as body:
        with gr.Row(elem_id="filters"):
            round_index = gr.Dropdown(**choices_of(list(run.evaluations().tables)), label="Round", elem_id="round")
            kind = gr.Dropdown(list(KINDS), value=next(iter(KINDS)), label="Show", elem_id="show")
        with gr.Row(elem_id="steps-row"):
            previous = gr.Button("Previous", elem_id="previous")
            place = gr.Number(1, label="Evaluation", precision=0, minimum=1, elem_id="position")
            following = gr.Button("Next", elem_id="next")
        panel = gr.HTML(elem_id="evaluation")

    def load(name: str):
        found = run.evaluations()
        if not found.tables:
            return problems(found.damage) or notice(NONE), gr.Column(visible=HIDDEN), *([gr.skip()] * 3)
        choices = choices_of(list(found.tables))
        shown = show(0, choices["value"], name, 1)
        return problems(found.damage), gr.Column(visible=True), gr.Dropdown(**choices), *shown

    def show(step: int, k: int | None, name: str, at: float | None):
        table = run.evaluations().tables.get(k)
        rows = None if table is None else KINDS[name](table)
        if rows is None or rows.empty:
            return gr.Number(1, label="Evaluation, of 0"), notice("No evaluation fits. Choose another round or kind.")
        index = (int(at or 1) - 1 + step) % len(rows)
        shown = render("evaluation", shown=show_evaluation(rows.iloc[index]))
        return gr.Number(index + 1, label=f"Evaluation, of {len(rows):,}"), shown

    inputs, outputs = [round_index, kind, place], [place, panel]
    wire([round_index.input, kind.input], lambda k, name, _: show(0, k, name, 1), inputs, outputs, latest=True)
    wire([place.submit], lambda *values: show(0, *values), inputs, outputs, latest=True)
    wire([previous.click], lambda *values: show(-1, *values), inputs, outputs)
    wire([following.click], lambda *values: show(1, *values), inputs, outputs)
    demo.load(load, kind, [state, body, round_index, *outputs], **FAST)
