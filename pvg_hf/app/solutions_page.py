"""
The page "Solutions": a table of all solutions, each with the other role's solution to the same problem, and exports.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from pvg_hf.app.events import FAST, INVISIBLE, SLOW
from pvg_hf.app.histogram import make_histogram
from pvg_hf.app.index import LABELLED, SCORES, ListedSolution, Query, SolutionIndex
from pvg_hf.app.links import MAX_SEARCH_CHARACTERS, SIZES, View, parse_link, read_link, write_link
from pvg_hf.app.pairs_export import FORMATS, write_export
from pvg_hf.app.render import notice, problems, render
from pvg_hf.app.runs import OpenRun
from pvg_hf.app.showing import ShownPair, show_every_round, show_pair, with_steps
from pvg_hf.app.text_scores import ScoreDesk
from pvg_hf.app.views import ShownView, ViewParts, build_view, frame_view, wire_view
from pvg_hf.core.acceptance import COMPLETENESS
from pvg_hf.core.commands import play_command
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.integrity import DamagedFileError
from pvg_hf.core.roles import GAME_ROLES, Role

LEGEND = (
    f"Accepted: the score is at least the one that {100 * COMPLETENESS:.0f} % of the helpful correct test solutions "
    "of the round's prover reach, by the round's verifier. Fools: the verifiers that accept a mistake by this rule."
)
TITLES = {"fooled": "fools verifier", "tests": "tests passed", "label": "your label"}
MAX_NOTE_CHARACTERS = 2000
NUMBERS = {"round", "score", "flaws", "tests", "tokens", "difficulty"}


def build_solutions_page(demo: gr.Blocks, run: OpenRun, desk: ScoreDesk, folder: Path) -> None:
    """Build the page. It must be called within the context of `demo`; `folder` is for temporary files."""
    parts = build_view(lambda values: show_solutions(run, desk, values))
    if run.takes_annotations:
        _build_labelling(demo, run, desk, parts)
    else:
        wire_view(demo, parts)
    with gr.Row(elem_id="export-row"):
        kind = gr.Dropdown(list(FORMATS), value=next(iter(FORMATS)), label="Export as", elem_id="export-kind")
        export = gr.Button("Export the selected rows, or all that the filters leave", elem_id="export")
    state = gr.HTML(elem_id="export-state", elem_classes="state")
    file = gr.DownloadButton("Download", elem_id="export-file", elem_classes=[INVISIBLE])

    def write(kind: str, link: str):
        try:
            path, number = write_export(run.index(), read_link(parse_link(link), run.index()), kind, folder)
        except ValueError as err:
            return notice(str(err), kind="problem"), gr.DownloadButton(elem_classes=[INVISIBLE])
        return notice(f"{number:,} rows as {kind}."), gr.DownloadButton(value=str(path), elem_classes=[])

    # The rows that are selected are in the browser's address alone.
    export.click(write, [kind, parts.address], [state, file], js="(kind) => [kind, location.search]", **SLOW)


def _build_labelling(demo: gr.Blocks, run: OpenRun, desk: ScoreDesk, parts: ViewParts) -> None:
    """
    Build the form below a pair in which a person labels either solution, and adds a note, and the events of the view.

    Its values are those of the solution whose key it holds, whatever the address says in the meantime, and each is
    kept as soon as it is entered.
    """
    with gr.Column(elem_id="labelling", elem_classes=[INVISIBLE]) as form, gr.Row():
        chosen = gr.Radio([], label="Your label of the solution", elem_id="label-of")
        label = gr.Radio(list(SCORES), label="It is", elem_id="label")
        note = gr.Textbox(label="Note (Enter saves it)", max_length=MAX_NOTE_CHARACTERS, elem_id="note")
    state = gr.HTML(elem_id="label-state", elem_classes="state")

    def fill(values: Mapping[str, str], previous: str | None):
        index = run.index()
        try:
            choices, key = _labelled_solutions(index, read_link(values, index), previous)
        except DamagedFileError:  # the view says it
            choices = []
        if not choices:
            return gr.Column(elem_classes=[INVISIBLE]), gr.Radio(choices=[], value=None), *_written(None), ""
        return gr.Column(elem_classes=[]), gr.Radio(choices=choices, value=key), *_written(index.find_key(key)), ""

    def choose(key: str):
        return *_written(run.index().find_key(key)), ""

    def keep(link: str, key: str, **changes: Any):
        try:
            said = run.annotate(key, **changes)
        except ValueError as err:
            return gr.skip(), notice(str(err), kind="problem")
        return (
            (frame_view(show_solutions(run, desk, parse_link(link)), link), notice(said)) if said else (gr.skip(), "")
        )

    wire_view(demo, parts, fill, [chosen], [form, chosen, label, note, state])
    here = "(first, ...others) => [location.search, ...others]"  # the address of the pair, also after Back
    chosen.input(choose, chosen, [label, note, state], **FAST)
    kept = [parts.content, state]
    label.input(
        lambda link, key, name: keep(link, key, score=SCORES[name]),
        [parts.address, chosen, label],
        kept,
        js=here,
        **FAST,
    )
    # A note that is left is kept, too: by a click on Next, say.
    gr.on(
        [note.submit, note.blur],
        lambda link, key, text: keep(link, key, note=text),
        [parts.address, chosen, note],
        kept,
        js=here,
        trigger_mode="multiple",
        **FAST,
    )


def _labelled_solutions(index: SolutionIndex, view: View, previous: str | None) -> tuple[list[tuple[str, str]], str]:
    """
    Return the solutions of the pair that a view opens, as choices with their keys, and the one to label.

    That is the one that the view opens, or the other one if the form was about its role for the same problem.
    """
    opened, view = _find_opened(index, view, index.count(view.query))
    if opened is None:
        return [], ""
    pair = show_pair(index, opened, view.other)
    choices = [
        (f"{role.value} {pair.choices[role].index(shown.listed) + 1}", shown.listed.key)
        for role, shown in pair.solutions.items()
    ]
    before = index.find_key(previous or "")
    if before is None or (before.round_index, before.problem_id) != (opened.round_index, opened.problem_id):
        return choices, opened.key
    return choices, pair.solutions[before.role].listed.key if before.role in pair.solutions else opened.key


def _written(listed: ListedSolution | None) -> tuple[str, str]:
    """Values of the form: the name of a solution's label, and its note."""
    score, note = (None, "") if listed is None else (listed.person_score, listed.note or "")
    return next(name for name, one in SCORES.items() if one == score), note


def show_solutions(run: OpenRun, desk: ScoreDesk, values: Mapping[str, str]) -> ShownView:
    """Render the table or a pair, as an address asks."""
    index = run.index()
    damage = problems(index.damage)
    if not index.rounds:
        return ShownView("", damage + problems([_missing(run)]), "?")
    view = read_link(values, index)
    count = index.count(view.query)
    view = replace(view, page=min(view.page, max(1, ceil(count / view.size))))
    opened, view = _find_opened(index, view, count)
    if opened is None:
        return ShownView(_filters(index, view), damage + _table(index, view, count), write_link(view))
    try:
        return ShownView("", damage + _pair(run, desk, view, opened, count), write_link(view))
    except DamagedFileError as err:
        return ShownView("", problems([str(err)]), write_link(view))


def _missing(run: OpenRun) -> str:
    return (
        f"The run {run.folder.root} has no solutions yet.\nThe bootstrap and the first round write them. Play "
        f"or resume the run with: {play_command(run.folder.root)}"
    )


def _find_opened(index: SolutionIndex, view: View, count: int) -> tuple[ListedSolution | None, View]:
    """Return the solution that a view opens, if any, and the view with its key and place."""
    opened = index.find_key(view.opened) if view.opened else None
    if opened is None and view.at is not None and count:
        at = view.at % count  # beyond the ends it goes round
        view, opened = replace(view, at=at), next(iter(index.find(view.query, at, 1)), None)
    return opened, replace(view, opened=opened.key if opened else None, at=view.at if opened else None)


# The form


def _filters(index: SolutionIndex, view: View) -> str:
    query = view.query
    parts: dict[bool | None, str] = {True: "test", False: "training"}
    truths: dict[bool | None, str] = {True: "yes", False: "no"}
    rounds = [(k, round_words(k)) for k in index.rounds]
    yes_no = [("yes", "yes"), ("no", "no")]
    labels = LABELLED if "label" in index.columns else {}
    choices = [
        _Choice("round", "Round", rounds, query.round_index),
        _Choice("part", "Problems", [("test", "test"), ("training", "training")], parts.get(query.is_test)),
        _Choice("role", "Role", [(role.value, role.value) for role in GAME_ROLES], query.role and query.role.value),
        _Choice("correct", "Correct", yes_no, truths.get(query.correct)),
        _Choice("accepted", "Accepted", yes_no, truths.get(query.accepted)),
        _Choice("fooled", "Fools verifier", [(k, str(k)) for k in index.verifiers], query.fooled),
        _Choice("flaw", "First flaw", [(kind, kind.replace("_", " ")) for kind in index.flaws], query.flaw),
        _Choice("difficulty", "Difficulty", [(name, name) for name in index.difficulties], query.difficulty),
        _Choice("label", "Your label", [(name, words) for name, (words, _) in labels.items()], query.label),
    ]
    return render(
        "filters",
        query=query,
        choices=[choice for choice in choices if choice.options],
        max_search=MAX_SEARCH_CHARACTERS,
        sizes=SIZES,
        chosen_size=view.size,
        sort=("-" if query.is_descending else "") + query.sort,
    )


@dataclass(frozen=True)
class _Choice:
    """A list of values to filter by."""

    name: str
    title: str
    options: list[tuple[Any, str]]
    chosen: Any


def round_words(round_index: int) -> str:
    return "base prover" if round_index == BASE_ROUND else f"round {round_index}"


# The table


@dataclass(frozen=True)
class _Cell:
    text: str
    kind: str = ""


def _table(index: SolutionIndex, view: View, count: int) -> str:
    start = (view.page - 1) * view.size
    names = index.columns
    rows = [
        {
            "key": one.key,
            "link": write_link(view, opened=one.key, at=start + place),
            "cells": [_cell(one, name) for name in names],
        }
        for place, one in enumerate(index.find(view.query, start, view.size))
    ]
    num_pages = max(1, ceil(count / view.size))
    first = replace(view, page=1)
    test = Query(round_index=view.query.round_index, is_test=True)
    mistakes = replace(test, role=Role.SNEAKY, correct=False)
    links = {
        "previous": write_link(view, page=view.page - 1) if view.page > 1 else None,
        "next": write_link(view, page=view.page + 1) if view.page < num_pages else None,
        "mistakes": write_link(replace(first, query=mistakes)),
        "accepted": write_link(replace(first, query=replace(mistakes, accepted=True))),
        "rejected": write_link(
            replace(first, query=replace(test, role=Role.HELPFUL, correct=True, accepted=False, is_descending=False))
        ),
        "every": write_link(replace(first, query=Query())),
    }
    return render(
        "table",
        count=count,
        total=index.num_solutions,
        rows=rows,
        columns=[_column(first, name) for name in names],
        page=view.page,
        pages=num_pages,
        links=links,
        selected=view.selected,
        legend=LEGEND,
    )


def _column(view: View, name: str) -> dict[str, Any]:
    is_sorted = view.query.sort == name
    direction = ("descending" if view.query.is_descending else "ascending") if is_sorted else None
    # A click on the sorted column turns its order; numbers begin with the largest.
    is_descending = not view.query.is_descending if is_sorted else name in NUMBERS | {"accepted", "correct", "fooled"}
    link = write_link(view, sort=name, is_descending=is_descending)
    kind = "number" if name in NUMBERS else "text-cell"
    return {
        "title": TITLES.get(name, name),
        "direction": direction,
        "link": link,
        "kind": kind,
        "help": f"sort by {name}",
    }


def _cell(one: ListedSolution, name: str) -> _Cell:
    match name:
        case "problem":
            return _Cell(one.problem_id)
        case "round":
            return _Cell("base" if one.round_index == BASE_ROUND else str(one.round_index))
        case "role":
            return _Cell(one.role.value)
        case "correct":
            return _Cell("correct", "right") if one.correct else _Cell("incorrect", "wrong")
        case "score":
            return _Cell(_number(one.score, ".2f"))
        case "accepted":
            return _Cell(
                {True: "accepted", False: "rejected", None: one.outcome.lower().replace("_", " ")}[one.accepted]
            )
        case "fooled":
            return _Cell(", ".join(map(str, one.fooled_by)))
        case "flaw":
            return _Cell((one.flaw or "").replace("_", " "))
        case "flaws":
            return _Cell(_number(one.num_flaws, "d"))
        case "tests":
            return _Cell(_number(one.share_passed, ".0%"))
        case "tokens":
            return _Cell(_number(one.num_tokens, "d"))
        case "label":
            return _Cell(one.label_words)
    return _Cell(one.difficulty or "")


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


# The pair


def _pair(run: OpenRun, desk: ScoreDesk, view: View, opened: ListedSolution, count: int) -> str:
    index = run.index()
    pair, problem = show_pair(index, opened, view.other), ""
    verifiers = desk.rounds()
    if view.steps is not None and view.steps in verifiers:
        try:
            pair = _score_steps(index, desk, pair, view.steps)
        except ValueError as err:
            problem = str(err)
    page = 1 if view.at is None else view.at // view.size + 1
    closed = replace(view, opened=None, at=None, other=None, steps=None, has_strip=False, page=page)
    rounds = show_every_round(index, opened.problem_id) if view.has_strip else []
    is_placed = view.at is not None and count > 1
    links = {
        "back": write_link(closed),
        "previous": _step(view, -1, count) if is_placed else None,
        "next": _step(view, 1, count) if is_placed else None,
        # Only test problems are solved in every round.
        "strip": write_link(view, has_strip=not view.has_strip) if opened.is_test else None,
        "steps": {k: write_link(view, steps=k) for k in verifiers},
        "no_steps": write_link(view, steps=None),
        "choices": {one.key: _choose(view, opened, one) for some in pair.choices.values() for one in some},
        "rounds": {
            solution.listed.key: write_link(view, opened=solution.listed.key, other=None)
            for one in rounds
            for solution in one.solutions.values()
        },
    }
    marked = {role.value: solution.listed.score for role, solution in pair.solutions.items()}
    marked["threshold"] = index.threshold(opened.round_index)
    histogram = make_histogram(index.scores(opened.round_index, is_test=opened.is_test), marked)
    return render(
        "pair",
        pair=pair,
        opened=opened,
        where=f"{round_words(opened.round_index).capitalize()}, {'test' if opened.is_test else 'training'} problem",
        problem=problem,
        at=view.at,
        count=count,
        verifiers=verifiers,
        steps=view.steps,
        rounds=rounds,
        round_words=round_words,
        labels=run.takes_annotations,
        roles=GAME_ROLES,
        links=links,
        histogram=Markup(render("histogram", histogram=histogram)),
        legend=LEGEND,
    )


def _step(view: View, by: int, count: int) -> str:
    return write_link(view, at=((view.at or 0) + by) % count, opened=None, other=None)


def _choose(view: View, opened: ListedSolution, one: ListedSolution) -> str:
    """Link to the pair with another solution in place of the one of its role."""
    if one.role == opened.role:
        return write_link(view, opened=one.key)
    return write_link(view, opened=opened.key, other=one.key)


def _score_steps(index: SolutionIndex, desk: ScoreDesk, pair: ShownPair, verifier: int) -> ShownPair:
    shown = {}
    for role, solution in pair.solutions.items():
        text = "\n".join(line.text for line in solution.lines)
        scores = [] if solution.special else desk.step_scores(verifier, pair.problem, text)
        accepted = [index.accepts(solution.listed.round_index, score, verifier) for score in scores]
        shown[role] = solution if solution.special else with_steps(solution, scores, accepted)
    return replace(pair, solutions=shown)
