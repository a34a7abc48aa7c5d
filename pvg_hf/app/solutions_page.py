"""The page "Solutions": a helpful and a sneaky solution to the same problem, side by side."""

from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from pvg_hf.app.events import FAST, INVISIBLE, SHOW_ADDRESS, TAKE_STEPS, shown_if, wire
from pvg_hf.app.histogram import make_histogram
from pvg_hf.app.index import Filter, Query, SolutionIndex
from pvg_hf.app.links import View, parse_link, read_link, write_link
from pvg_hf.app.render import heading, notice, problems, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.showing import ShownProblem, show_problem
from pvg_hf.core.commands import play_command
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.roles import GAME_ROLES, Role

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
    """Components of the page: those that select a view, and those that show it."""

    controls: list[gr.Dropdown | gr.Textbox]
    buttons: list[gr.Button]  # previous and next
    position: gr.Number
    picks: dict[Role, gr.Dropdown]
    panels: list[gr.HTML]  # problem, helpful, sneaky, histogram
    reveal: gr.Button
    is_revealed: gr.State
    link: gr.Textbox  # the view currently shown, independent of what is being typed into the controls
    steps: gr.Number  # net presses of Next and Previous since the last call, filled in by the browser

    @property
    def outputs(self) -> list[gr.components.Component]:
        # The link comes first: an event that another value triggers in the browser must already see the new view.
        return [self.link, self.position, *self.picks.values(), *self.panels, self.reveal, self.is_revealed]


def build_solutions_page(demo: gr.Blocks, run: OpenRun) -> None:
    """Build the page. It must be called within the context of `demo`."""
    index = run.index()
    gr.HTML(
        heading(f"{run.name}: solutions", "Who is right? Read both, then reveal. What a model wrote is shown as text.")
    )
    state = gr.HTML(_problems(run), elem_classes="state")
    with gr.Column(elem_classes=shown_if(bool(index.rounds))) as body:
        page = _make_panels(_make_controls(index))
    _wire(demo, run, page, [state, body])


def _problems(run: OpenRun) -> str:
    index = run.index()
    missing = (
        f"The run {run.folder.root} has no solutions yet.\nThe bootstrap and the first round write them. Play or"
        f" resume the run with: {play_command(run.folder.root)}"
    )
    return problems(index.damage if index.rounds else [*index.damage, missing])


def _make_controls(index: SolutionIndex) -> list[gr.Dropdown | gr.Textbox]:
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
            elem_classes=shown_if(bool(index.difficulties)),
            elem_id="difficulty",
            min_width=100,
        )
        search = gr.Textbox(
            label="Search in problems",
            placeholder="word or id",
            max_length=MAX_SEARCH_CHARACTERS,
            elem_id="search",
            min_width=150,
        )
    return [round_index, part, shown, difficulty, search]


def _rounds(index: SolutionIndex) -> list[tuple[str, int]]:
    return [("base prover" if k == BASE_ROUND else f"round {k}", k) for k in index.rounds]


def _make_panels(controls: list[gr.Dropdown | gr.Textbox]) -> Page:
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
    link = gr.Textbox(elem_classes=[INVISIBLE], elem_id="link")
    steps = gr.Number(0, elem_classes=[INVISIBLE], elem_id="steps")
    panels = [problem, *cards, histogram]
    buttons = [previous, following]
    return Page(controls, buttons, position, picks, panels, reveal, gr.State(False), link, steps)


def _wire(demo: gr.Blocks, run: OpenRun, page: Page, around: list[gr.blocks.Block]) -> None:
    shown = [*page.outputs, *page.controls]

    def load(request: gr.Request):
        index = run.index()
        if not index.rounds:
            return [_problems(run), gr.Column(elem_classes=shown_if(False)), *([gr.skip()] * len(shown))]
        view = fit(index, read_link(dict(request.query_params), index))
        body = gr.Column(elem_classes=shown_if(True))
        return [_problems(run), body, *show(run, view), *_set_controls(index, view.query)]

    def change_round(round_index: int, link: str):
        """Show the same problem in another round, with a filter that it passes there."""
        index = run.index()
        view = read_link(parse_link(link), index)
        query = replace(view.query, round_index=round_index)
        query = replace(query, is_test=query.is_test or not index.has_part(round_index, is_test=False))
        fitting = fit(index, View(query, view.problem_id))
        if fitting.problem_id is None:
            fitting = View(query)
        return [*show(run, fitting), *_set_controls(index, fitting.query)]

    def change(*values):
        *controls, link = values
        query = _query(*controls)
        # No input by the visitor: the server set the value itself.
        if query == read_link(parse_link(link), run.index()).query:
            return [gr.skip()] * len(page.outputs)
        return show(run, View(query))

    def go(position: float | None, link: str, steps: int):
        index = run.index()
        view = read_link(parse_link(link), index)
        found = index.find(view.query)
        before = found.index(view.problem_id) + 1 if view.problem_id in found else 1
        place = int(position or before) + steps
        if view.problem_id is None or (place == before and position is not None):  # no current problem, or no change
            return [gr.skip()] * len(page.outputs)
        return show(run, View(view.query), place=place)

    def pick(helpful: int | None, sneaky: int | None, is_revealed: bool, link: str):
        view = read_link(parse_link(link), run.index())
        return show(run, replace(view, chosen={Role.HELPFUL: helpful, Role.SNEAKY: sneaky}), is_revealed=is_revealed)

    def toggle(is_revealed: bool, link: str):
        return show(run, read_link(parse_link(link), run.index()), is_revealed=not is_revealed)

    round_index, *filters, search = page.controls
    moves = [
        wire([round_index.input], change_round, [round_index, page.link], shown, latest=True),
        wire(
            # A textbox's `input` event fires only for typed characters, not for deleted or pasted text.
            [*(control.input for control in filters), search.change],
            change,
            [*page.controls, page.link],
            page.outputs,
            latest=True,
        ),
        wire(
            # Not on every digit: the response would overwrite the digits typed in the meantime.
            [page.position.submit, page.position.blur, *(button.click for button in page.buttons)],
            go,
            [page.position, page.link, page.steps],
            page.outputs,
            latest=True,
            js=TAKE_STEPS,
        ),
        wire(
            [dropdown.input for dropdown in page.picks.values()],
            pick,
            [*page.picks.values(), page.is_revealed, page.link],
            page.outputs,
        ),
        wire([page.reveal.click], toggle, [page.is_revealed, page.link], page.outputs),
        demo.load(load, None, [*around, *shown], **FAST),
    ]
    for move in moves:
        move.then(None, page.link, None, js=SHOW_ADDRESS, **FAST)


def fit(index: SolutionIndex, view: View) -> View:
    """
    Adjust a view so that its problem passes its filter.

    The filter is dropped if the problem does not pass it, and the problem is dropped if the round does not have it.
    """
    if view.problem_id is None or view.problem_id in index.find(view.query):
        return view
    every = replace(view, query=replace(view.query, filter=Filter.ALL, difficulty=None, search=""))
    return every if view.problem_id in index.find(every.query) else replace(every, problem_id=None)


def show(run: OpenRun, view: View, *, place: int = 1, is_revealed: bool = False) -> list[Any]:
    """
    Values of the page's outputs for a view.

    A view without a problem shows the one at `place`, counted from 1; places beyond the ends wrap around.
    """
    index = run.index()
    found = index.find(view.query)
    if not found:
        return _show_nothing(view.query)
    place = found.index(view.problem_id) + 1 if view.problem_id in found else (place - 1) % len(found) + 1
    problem_id = found[place - 1]
    shown = show_problem(index, view.query, problem_id, view.chosen, is_revealed=is_revealed)
    chosen = {role: solution.sample_index for role, solution in shown.solutions.items()}
    return [
        write_link(View(view.query, problem_id, chosen)),
        gr.Number(place, label=f"Problem {place:,} of {len(found):,}"),
        *(_pick(shown, role) for role in GAME_ROLES),
        render("problem", shown=shown, meaning=MEANINGS[view.query.filter]),
        *(render("solution", role=role.value, solution=shown.solutions.get(role)) for role in GAME_ROLES),
        _histogram(index, view.query, shown),
        gr.Button("Hide" if is_revealed else "Reveal", interactive=True),
        is_revealed,
    ]


def _show_nothing(query: Query) -> list[Any]:
    text = "No problem fits. Choose another round or filter, or search for something else."
    picks = [gr.Dropdown([], value=None) for _ in GAME_ROLES]
    panels = [notice(text), "", "", ""]
    number = gr.Number(1, label="Problem 0 of 0")
    return [write_link(View(query)), number, *picks, *panels, gr.Button("Reveal", interactive=False), False]


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


def _set_controls(index: SolutionIndex, query: Query) -> list[Any]:
    """Values of the controls, with their current choices."""
    names = {value: name for name, value in FILTERS.items()}
    parts = {value: name for name, value in PARTS.items()}
    difficulties = index.difficulties
    return [
        gr.Dropdown(_rounds(index), value=query.round_index),
        parts[query.is_test],
        names[query.filter],
        gr.Dropdown([ANY, *difficulties], value=query.difficulty or ANY, elem_classes=shown_if(bool(difficulties))),
        query.search,
    ]
