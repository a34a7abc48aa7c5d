"""The page "Evaluations": what a generative verifier wrote of a proof, next to the proof."""

import gradio as gr

from pvg_hf.app.events import FAST, INVISIBLE, TAKE_STEPS, choices_of, shown_if, wire
from pvg_hf.app.render import heading, notice, problems, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.report.examples import has_hallucination, show_evaluation

KINDS = {
    "every evaluation": lambda rows: rows,
    "wrong score": lambda rows: rows[rows["predicted"] != rows["reference"]],
    "hallucinated issue": lambda rows: rows[rows["issues"].map(has_hallucination).astype(bool)],
    "flawed proof that got a 1": lambda rows: rows[(rows["reference"] == 0) & (rows["predicted"] == 1)],
}

NONE = (
    "No verifier of this run has written evaluations. Verifiers that write (kind: score in the recipe's section"
    " verifier) do so when a round is evaluated."
)


def build_evaluations_page(demo: gr.Blocks, run: OpenRun) -> None:
    """Build the page. It must be called within the context of `demo`."""
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
        steps = gr.Number(0, elem_classes=[INVISIBLE], elem_id="steps")
        panel = gr.HTML(elem_id="evaluation")

    def load(name: str):
        found = run.evaluations()
        if not found.tables:
            return problems(found.damage) or notice(NONE), gr.Column(elem_classes=shown_if(False)), *([gr.skip()] * 3)
        choices = choices_of(list(found.tables))
        shown = show(choices["value"], name, 1, 0)
        return problems(found.damage), gr.Column(elem_classes=shown_if(True)), gr.Dropdown(**choices), *shown

    def show(k: int | None, name: str, at: float | None, steps: int):
        table = None if k is None else run.evaluations().tables.get(k)
        rows = None if table is None else KINDS[name](table)
        if rows is None or rows.empty:
            return gr.Number(1, label="Evaluation 0 of 0"), notice("No evaluation fits. Choose another round or kind.")
        index = (int(at or 1) - 1 + steps) % len(rows)
        shown = render("evaluation", shown=show_evaluation(rows.iloc[index]))
        return gr.Number(index + 1, label=f"Evaluation {index + 1:,} of {len(rows):,}"), shown

    outputs = [place, panel]
    wire(
        [round_index.input, kind.input], lambda k, name: show(k, name, 1, 0), [round_index, kind], outputs, latest=True
    )
    wire(
        [place.submit, place.blur, previous.click, following.click],
        show,
        [round_index, kind, place, steps],
        outputs,
        latest=True,
        js=TAKE_STEPS,
    )
    demo.load(load, kind, [state, body, round_index, *outputs], **FAST)
