"""The page "Score your own": scores a visitor's text with a round's verifier."""

import gradio as gr

from pvg_hf.app.events import FAST, SLOW, choices_of, shown_if
from pvg_hf.app.index import Query
from pvg_hf.app.render import heading, notice, problems, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.text_scores import MAX_PROBLEM_CHARACTERS, MAX_SOLUTION_CHARACTERS, ScoreDesk
from pvg_hf.core.commands import play_command
from pvg_hf.core.roles import Role


def build_score_page(demo: gr.Blocks, run: OpenRun, desk: ScoreDesk) -> None:
    """Build the page. It must be called within the context of `demo`."""
    gr.HTML(
        heading(f"{run.name}: score your own", "How does the verifier score your solution? It runs here, on the CPU.")
    )
    rounds = desk.rounds()
    state = gr.HTML(_problems(run, rounds), elem_classes="state")
    with gr.Column(elem_classes=shown_if(bool(rounds))) as body:
        round_index = gr.Dropdown(**choices_of(rounds), label="Verifier of", elem_id="verifier-round")
        problem = gr.Textbox(
            label="Problem", lines=3, max_lines=12, max_length=MAX_PROBLEM_CHARACTERS, elem_id="own-problem"
        )
        solution = gr.Textbox(
            label="Solution, a step on each line",
            lines=5,
            max_lines=24,
            max_length=MAX_SOLUTION_CHARACTERS,
            elem_id="own-solution",
        )
        with gr.Row():
            example = gr.Button("Fill in an example", elem_id="example")
            score = gr.Button("Score", variant="primary", elem_id="score")
        result = gr.HTML(elem_id="scored")

    def load():
        rounds = desk.rounds()
        return (
            _problems(run, rounds),
            gr.Column(elem_classes=shown_if(bool(rounds))),
            gr.Dropdown(**choices_of(rounds)),
        )

    def score_it(round_index: int, problem: str, solution: str) -> str:
        try:
            scored = desk.score(round_index, problem, solution)
            return problems(scored.damage) + render("score", scored=scored)
        except ValueError as err:
            return notice(str(err), kind="problem")

    demo.load(load, None, [state, body, round_index], **FAST)
    example.click(lambda k: find_example(run, k), round_index, [problem, solution], **FAST)
    score.click(score_it, [round_index, problem, solution], result, concurrency_limit=4, **SLOW)


def _problems(run: OpenRun, rounds: list[int]) -> str:
    missing = (
        f"The run {run.folder.root} has no verifier yet, or its weights were deleted.\nThe first round trains one."
        f" Resume the run with: {play_command(run.folder.root)}"
    )
    return problems([] if rounds else [missing])


def find_example(run: OpenRun, round_index: int) -> tuple[str, str]:
    """Find a test problem and its most convincing helpful solution in the round; empty texts if there is none."""
    index = run.index()
    found = index.find(Query(round_index, is_test=True, role=Role.HELPFUL), 0, 1)
    for row in index.read([one.place for one in found]):
        return row["problem"], row["solution"].strip()
    return "", ""
