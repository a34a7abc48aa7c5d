"""The study's page: participants judge solutions against the clock, without knowing who wrote them."""

import secrets
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from pvg_hf.app.events import FAST, INVISIBLE, SHOW_ADDRESS, shown_if
from pvg_hf.app.index import SolutionIndex
from pvg_hf.app.render import heading, notice
from pvg_hf.app.runs import OpenRun
from pvg_hf.experimental.study.access import Newcomers, address_of
from pvg_hf.experimental.study.participants import Judgment, Progress, Study, check_participant
from pvg_hf.report.page import make_environment

_TEMPLATES = make_environment(Path(__file__).parent / "templates")
# Label, judgment and confidence of each button, in the order of the keys 1 to 6.
ANSWERS = (
    ("Flawed: sure", Judgment.FLAWED, 3),
    ("Flawed: probably", Judgment.FLAWED, 2),
    ("Flawed: a guess", Judgment.FLAWED, 1),
    ("Correct: a guess", Judgment.CORRECT, 1),
    ("Correct: probably", Judgment.CORRECT, 2),
    ("Correct: sure", Judgment.CORRECT, 3),
)
_LATE = "Time ran out for that solution."
_REFUSED = (
    "That answer was not recorded: it was sent twice or after the time limit, or the app was restarted in between. If"
    " the solution is shown again, please judge it again."
)
_STORAGE_SECRET = "pvg-study"  # the participant's id need not be secret: it is in the address
_FOCUS = "() => setTimeout(() => document.querySelector('#study-go:not([disabled])')?.focus(), 300)"


@dataclass(frozen=True)
class Page:
    """Components of the page: a participant's progress, and the buttons."""

    participant: gr.BrowserState
    item: gr.Textbox  # kept in the browser, so that an answer names its solution even after a restart of the server
    link: gr.Textbox
    panel: gr.HTML
    go: gr.Button
    judgments: gr.Column
    buttons: list[gr.Button]  # in the order of ANSWERS
    time_ran_out: gr.Button

    @property
    def outputs(self) -> list[Any]:
        return [self.participant, self.item, self.link, self.panel, self.go, self.judgments]


def render(template: str, **values: Any) -> str:
    """Render a template of the study."""
    return _TEMPLATES.get_template(f"{template}.html.jinja").render(**values)


def build_study_page(demo: gr.Blocks, run: OpenRun, study: Study, num_solutions: int) -> None:
    """Build the page. It must be called within the context of `demo`."""
    gr.HTML(heading("Legibility study", "How well can people check what the provers wrote?"))
    state = gr.HTML(elem_classes="state")
    page = _make_page(run)

    def load():
        text = f"The run {run.folder.root} has no test solutions yet: there is nothing to judge."
        return "" if has_solutions(run.index()) else notice(text, kind="problem")

    demo.load(load, None, state, **FAST)
    _wire(demo, run, study, page, num_solutions)


def has_solutions(index: SolutionIndex) -> bool:
    return any(index.has_part(k, is_test=True) for k in index.rounds)


def _make_page(run: OpenRun) -> Page:
    participant = gr.BrowserState(storage_key=f"pvg-study-{run.name}", secret=_STORAGE_SECRET)
    item = gr.Textbox(elem_classes=[INVISIBLE], elem_id="study-item")
    link = gr.Textbox(elem_classes=[INVISIBLE], elem_id="study-link")
    panel = gr.HTML(elem_id="study-panel")
    go = gr.Button("Show the first solution", variant="primary", elem_id="study-go", elem_classes=[INVISIBLE])
    buttons = []
    with gr.Column(elem_classes=[INVISIBLE], elem_id="judgments") as judgments:
        for first in (0, 3):
            with gr.Row():
                for number in range(first + 1, first + 4):
                    name = f"{ANSWERS[number - 1][0]} ({number})"
                    buttons.append(gr.Button(name, elem_id=f"judge-{number}", min_width=150))
    time_ran_out = gr.Button("Time ran out", elem_classes=[INVISIBLE], elem_id="time-ran-out")
    return Page(participant, item, link, panel, go, judgments, buttons, time_ran_out)


def _wire(demo: gr.Blocks, run: OpenRun, study: Study, page: Page, num_solutions: int) -> None:
    def show(participant: str, progress: Progress | None, note: str = "") -> list[Any]:
        if progress is None and not has_solutions(run.index()):
            return show_nothing(participant)
        return show_progress(study, participant, progress, num_solutions, note)

    def load(stored: str | None, request: gr.Request):
        participant = find_participant(request.query_params.get("participant"), stored)
        if not study.knows(participant):
            return show(participant, None)
        progress = study.progress(participant)
        return show(participant, progress, _LATE if progress.has_run_out else "")

    newcomers = Newcomers()

    def go(participant: str, request: gr.Request):
        try:
            if not study.knows(participant):
                newcomers.admit(address_of(request))
            progress = study.show(participant)
        except (ValueError, OSError) as err:  # too many participants, another process's study
            return show(participant, None, str(err))
        return show(participant, progress) if progress.num_items else show_nothing(participant)

    def judge(judgment: Judgment, confidence: int | None, participant: str, item: str):
        if not study.knows(participant):
            return show(participant, None)
        recorded = study.answer(participant, item, judgment, confidence)
        progress = study.progress(participant)
        if recorded is Judgment.TIME_RAN_OUT or progress.has_run_out:
            return show(participant, progress, _LATE)
        is_refused = recorded is None and judgment is not Judgment.TIME_RAN_OUT
        return show(participant, progress, _REFUSED if is_refused else "")

    presses = [(button, said, sure) for button, (_, said, sure) in zip(page.buttons, ANSWERS)]
    presses.append((page.time_ran_out, Judgment.TIME_RAN_OUT, None))
    shown = [demo.load(load, page.participant, page.outputs, **FAST)]
    shown.append(page.go.click(go, page.participant, page.outputs, **FAST))
    for button, *said in presses:
        shown.append(button.click(partial(judge, *said), [page.participant, page.item], page.outputs, **FAST))
    for event in shown:
        event.then(None, page.link, None, js=SHOW_ADDRESS, **FAST).then(None, js=_FOCUS, **FAST)


def show_progress(
    study: Study, participant: str, progress: Progress | None, num_solutions: int, note: str
) -> list[Any]:
    """Values of the page's outputs; `progress` is `None` for a participant who has not started."""
    link = f"?participant={participant}"
    if progress is not None and progress.item is not None and progress.seconds_left is not None:
        panel = render(
            "study_item",
            item=progress.item,
            number=progress.num_done + 1,
            num_items=progress.num_items,
            seconds_left=progress.seconds_left,
            seconds=study.seconds,
        )
        go, judgments = gr.Button(elem_classes=shown_if(False)), gr.Column(elem_classes=shown_if(True))
        return [participant, progress.item.item, link, panel, go, judgments]
    num_done, num_items = (progress.num_done, progress.num_items) if progress else (0, 0)
    panel = render(
        "study_intro",
        num_done=num_done,
        num_items=num_items,
        num_planned=num_solutions,
        seconds=study.seconds,
        participant=participant,
        note=note,
    )
    is_over = progress is not None and progress.item is None
    name = "Show the next solution" if num_done else "Show the first solution"
    go = gr.Button(name, elem_classes=shown_if(not is_over))
    return [participant, "", link, panel, go, gr.Column(elem_classes=shown_if(False))]


def show_nothing(participant: str) -> list[Any]:
    """Values of the page's outputs while the run has no solutions to judge; the start button is hidden."""
    panel = notice("There is no solution to judge yet. Load this page again later.")
    hidden = shown_if(False)
    return [
        participant,
        "",
        f"?participant={participant}",
        panel,
        gr.Button(elem_classes=hidden),
        gr.Column(elem_classes=hidden),
    ]


def find_participant(named: str | None, stored: str | None) -> str:
    """Participant's id: from the address, else from the browser's storage, else a new one."""
    for participant in (named, stored):
        try:
            check_participant(participant or "")
        except ValueError:
            continue
        return participant
    return secrets.token_hex(6)
