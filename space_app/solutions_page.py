"""Solutions: a helpful and a sneaky one to the same problem, side by side."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gradio as gr

from pvg_hf.browse.index import SolutionIndex
from pvg_hf.browse.query import Filter, Query
from pvg_hf.browse.runs import OpenRun
from pvg_hf.browse.showing import ShownProblem, show_problem
from pvg_hf.data.schema import BASE_ROUND
from pvg_hf.roles import GAME_ROLES, Role
from space_app.events import FAST, HIDDEN, SHOW_ADDRESS, wire
from space_app.histogram import make_histogram
from space_app.links import View, read_link, write_link
from space_app.render import heading, notice, problems, render

MAX_SEARCH_CHARACTERS = 200
FILTERS = {
    "every problem": Filter.ALL,
    "fooled": Filter.FOOLED,
    "caught": Filter.CAUGHT,
    "mistake accepted": Filter.SNEAKY_ACCEPTED,
    "correct rejected": Filter.HELPFUL_REJECTED,
}
MEANINGS = {
    Filter.ALL: "",
    Filter.FOOLED: "Fooled: a valid sneaky mistake scores above the best helpful correct solution.",
    Filter.CAUGHT: "Caught: no valid sneaky mistake scores above the best helpful correct solution.",
    Filter.SNEAKY_ACCEPTED: "A valid sneaky mistake scores above the threshold.",
    Filter.HELPFUL_REJECTED: "A helpful correct solution does not score above the threshold.",
}
PARTS = {"test": True, "training": False}
ANY = "any"
KEYS = "Keys: right arrow or n for the next problem, left arrow or p for the previous one, r to reveal."


@dataclass(frozen=True)
class Page:
    """The components whose values make up a view, and those that show it."""

    controls: list[gr.components.Component]
    steps: dict[int, gr.Button]  # how far each goes
    position: gr.Number
    picks: dict[Role, gr.Dropdown]
    panels: list[gr.HTML]  # problem, helpful, sneaky, histogram
    reveal: gr.Button
    place: gr.State  # which problem is on show, from 1: the number beside the buttons may be being typed
    is_revealed: gr.State
    link: gr.Textbox

    @property
    def inputs(self) -> list[gr.components.Component]:
        return [*self.controls, self.place, *self.picks.values(), self.is_revealed]

    @property
    def outputs(self) -> list[gr.components.Component]:
        return [
            *(self.place, self.position, *self.picks.values(), *self.panels),
            *(self.reveal, self.is_revealed, self.link),
        ]


def build_solutions_page(demo: gr.Blocks, run: OpenRun) -> None:
    """Put the page into `demo`, within whose context this is called."""
    index = run.index()
    gr.HTML(
        heading(f"{run.name}: solutions", "Who is right? Read both, then reveal. What a model wrote is shown as text.")
    )
    state = gr.HTML(_problems(run), elem_classes="state")
    with gr.Column(visible=bool(index.rounds) or HIDDEN) as body:
        page = _make_panels(_make_controls(index))
    _wire(demo, run, page, [state, body])


def _problems(run: OpenRun) -> str:
    index = run.index()
    return problems(index.damage if index.rounds else [*index.damage, nothing_yet(run)])


def nothing_yet(run: OpenRun) -> str:
    return (
        f"The run {run.folder.root} has no solutions yet.\nThey come with its bootstrap and its first round. Play it, or go "
        f"on: python scripts/run_rounds.py {run.folder.recipe}"
    )


def _make_controls(index: SolutionIndex) -> list[gr.components.Component]:
    with gr.Row(elem_id="filters"):
        round_index = gr.Dropdown(
            _rounds(index), value=next(reversed(index.rounds), None), label="Round", elem_id="round", min_width=130
        )
        part = gr.Dropdown(list(PARTS), value=next(iter(PARTS)), label="Problems", elem_id="part", min_width=130)
        shown = gr.Dropdown(list(FILTERS), value=next(iter(FILTERS)), label="Show", elem_id="show", min_width=150)
        difficulty = gr.Dropdown(
            [ANY, *index.difficulties],
            value=ANY,
            label="Difficulty",
            visible=bool(index.difficulties),
            elem_id="difficulty",
            min_width=100,
        )
        search = gr.Textbox(
            label="Search in problems",
            placeholder="a word, or a problem's id",
            max_length=MAX_SEARCH_CHARACTERS,
            elem_id="search",
            min_width=150,
        )
    return [round_index, part, shown, difficulty, search]


def _rounds(index: SolutionIndex) -> list[tuple[str, int]]:
    return [("base prover" if k == BASE_ROUND else f"round {k}", k) for k in index.rounds]


def _make_panels(controls: list[gr.components.Component]) -> Page:
    with gr.Row(elem_id="steps-row"):
        previous = gr.Button("Previous", elem_id="previous")
        position = gr.Number(1, label="Problem", precision=0, minimum=1, elem_id="position")
        following = gr.Button("Next", elem_id="next")
    problem = gr.HTML(elem_id="problem")
    reveal = gr.Button("Reveal", variant="primary", elem_id="reveal")
    picks, cards = {}, []
    with gr.Row():
        for role in GAME_ROLES:
            with gr.Column(min_width=300):
                picks[role] = gr.Dropdown([], label=f"{role.capitalize()} solution", elem_id=f"pick-{role}")
                cards.append(gr.HTML(elem_id=f"card-{role}"))
    histogram = gr.HTML(elem_id="histogram")
    gr.HTML(f"<p class='soft'>{KEYS} The address of this page reopens this view.</p>")
    link = gr.Textbox("", visible=HIDDEN, elem_id="link")
    steps = {-1: previous, 1: following}
    panels = [problem, *cards, histogram]
    return Page(controls, steps, position, picks, panels, reveal, gr.State(1), gr.State(False), link)


def _wire(demo: gr.Blocks, run: OpenRun, page: Page, around: list[gr.blocks.Block]) -> None:
    def load(request: gr.Request):
        index = run.index()
        if not index.rounds:
            return [_problems(run), gr.Column(visible=HIDDEN), *([gr.skip()] * len(shown))]
        view = read_link(dict(request.query_params), index)
        return [_problems(run), gr.Column(visible=True), *_set_controls(index, view.query), *show(run, view)]

    def change(*controls):
        return show(run, View(_query(*controls)))

    def go(step, *values):
        *controls, place = values
        return show(run, View(_query(*controls)), place=(place or 1) + step)

    def pick(*values):
        return show(run, _view(run, values))

    def toggle(*values):
        return show(run, _view(run, values), is_revealed=not values[-1])

    shown = [*page.controls, *page.outputs]
    typed = [*page.controls, page.position]
    moves = [
        wire([control.input for control in page.controls], change, page.controls, page.outputs, latest=True),
        wire([page.position.submit, page.position.input], partial(go, 0), typed, page.outputs, latest=True),
        wire([dropdown.input for dropdown in page.picks.values()], pick, page.inputs, page.outputs),
        wire([page.reveal.click], toggle, page.inputs, page.outputs),
        *(
            wire([button.click], partial(go, step), [*page.controls, page.place], page.outputs)
            for step, button in page.steps.items()
        ),
        demo.load(load, None, [*around, *shown], **FAST),
    ]
    for move in moves:
        move.then(None, page.link, None, js=SHOW_ADDRESS, **FAST)


def show(run: OpenRun, view: View, *, place: int = 1, is_revealed: bool = False) -> list[Any]:
    """Values of the page's outputs for a view; `place` is the problem's if the view has none, from 1 and round the ends."""
    index = run.index()
    found = index.find(view.query)
    if view.problem_id is not None and view.problem_id not in found:  # of a link whose filter does not fit any more
        view = replace(view, query=replace(view.query, filter=Filter.ALL, difficulty=None, search=""))
        found = index.find(view.query)
    if not found:
        return _show_nothing(view.query)
    if view.problem_id in found:
        place = found.index(view.problem_id) + 1
    else:
        place = (int(place) - 1) % len(found) + 1
    problem_id = found[place - 1]
    shown = show_problem(index, view.query, problem_id, view.chosen, is_revealed=is_revealed)
    chosen = {role: solution.sample_index for role, solution in shown.solutions.items()}
    return [
        place,
        gr.Number(place, label=f"Problem, of {len(found):,}"),
        *(_pick(shown, role) for role in GAME_ROLES),
        render("problem", shown=shown, meaning=MEANINGS[view.query.filter]),
        *(render("solution", role=role.value, solution=shown.solutions.get(role)) for role in GAME_ROLES),
        _histogram(index, view.query, shown),
        gr.Button("Hide" if is_revealed else "Reveal", interactive=True),
        is_revealed,
        write_link(View(view.query, problem_id, chosen)),
    ]


def _show_nothing(query: Query) -> list[Any]:
    text = "No problem fits. Choose another round or filter, or search for something else."
    picks = [gr.Dropdown([], value=None) for _ in GAME_ROLES]
    panels = [notice(text), "", "", ""]
    number = gr.Number(1, label="Problem, of 0")
    return [1, number, *picks, *panels, gr.Button("Reveal", interactive=False), False, write_link(View(query))]


def _pick(shown: ShownProblem, role: Role) -> gr.Dropdown:
    choices = shown.choices[role]
    names = [
        f"{place} of {len(choices)}" + ("" if score is None else f", score {score:.2f}")
        for place, (_, score) in enumerate(choices, start=1)
    ]
    values = [(name, sample_index) for name, (sample_index, _) in zip(names, choices)]
    chosen = shown.solutions.get(role)
    return gr.Dropdown(values, value=None if chosen is None else chosen.sample_index)


def _histogram(index: SolutionIndex, query: Query, shown: ShownProblem) -> str:
    marked = {role.value: solution.score for role, solution in shown.solutions.items()}
    marked["threshold"] = index.threshold(query.round_index)
    return render(
        "histogram", histogram=make_histogram(index.scores(query.round_index, is_test=query.is_test), marked)
    )


def _query(round_index: int, part: str, shown: str, difficulty: str, search: str) -> Query:
    return Query(round_index, PARTS[part], FILTERS[shown], None if difficulty == ANY else difficulty, search.strip())


def _view(run: OpenRun, values: tuple[Any, ...]) -> View:
    """The view that the page shows, by its inputs."""
    *controls, place, helpful, sneaky, _ = values
    query = _query(*controls)
    found = run.index().find(query)
    problem_id = found[(place - 1) % len(found)] if found else None
    return View(query, problem_id, dict(zip(GAME_ROLES, (helpful, sneaky))))


def _set_controls(index: SolutionIndex, query: Query) -> list[Any]:
    """Values of the controls, with what there is to choose from by now."""
    names = {value: name for name, value in FILTERS.items()}
    parts = {value: name for name, value in PARTS.items()}
    difficulties = index.difficulties
    return [
        gr.Dropdown(_rounds(index), value=query.round_index),
        parts[query.is_test],
        names[query.filter],
        gr.Dropdown([ANY, *difficulties], value=query.difficulty or ANY, visible=bool(difficulties)),
        query.search,
    ]
