"""The page "Compare": two rounds, of this run or of another one in the same folder, with paired differences."""

from collections.abc import Mapping
from urllib.parse import urlencode

import gradio as gr

from pvg_hf.app.index import Query
from pvg_hf.app.links import View, write_link
from pvg_hf.app.render import heading, notice, render
from pvg_hf.app.runs import OpenRun, sibling_runs
from pvg_hf.app.views import ShownView, build_view, wire_view
from pvg_hf.evaluation.catalogue import explain, heading_of
from pvg_hf.evaluation.comparison import ComparedFigure, compare_rounds
from pvg_hf.evaluation.verifier_verdict import compare_verifiers
from pvg_hf.report.tables import MISSING, Table, TableCell, figure_cell
from pvg_hf.run.read import RoundData, RunData
from pvg_hf.run.resume import differences


def build_compare_page(demo: gr.Blocks, run: OpenRun) -> None:
    """Build the page. It must be called within the context of `demo`."""
    gr.HTML(heading("Compare two rounds", "Differences are ours minus theirs, paired by problem where both have it."))
    wire_view(demo, build_view(lambda values: show_comparison(run, values)))


def show_comparison(run: OpenRun, values: Mapping[str, str]) -> ShownView:
    """
    Render the comparison of round `ours` of the run with round `theirs` of `run`, by default of its last and first
    round.
    """
    others = {run.name: run.folder.root, **sibling_runs(run.folder.root)}
    name = values.get("run", run.name)
    name = name if name in others else run.name
    try:
        data = run.data()
        other = data if name == run.name else OpenRun(others[name]).data()
        ours = _choose(data, values.get("ours"), -1)
        theirs = _choose(other, values.get("theirs"), 0)
    except (ValueError, OSError) as err:  # pyarrow raises either for a damaged Parquet file
        return ShownView("", notice(str(err), kind="problem"), "?")
    rounds = {
        which: [str(one.round_index) for one in found.evaluated]
        for which, found in (("ours", data), ("theirs", other))
    }
    indices = ("" if one is None else str(one.round_index) for one in (ours, theirs))
    chosen = {"ours": next(indices), "run": name, "theirs": next(indices)}
    form = render("compare_form", runs=list(others), rounds=rounds, chosen=chosen, own=run.name)
    address = f"?{urlencode(chosen)}"
    if ours is None or theirs is None:
        lacking = run.name if ours is None else name
        what = "There is nothing to compare until its first round is evaluated"
        advice = f"{what}." if ours is None else f"{what}; choose another run."
        return ShownView(form, notice(f"The run {lacking} has no evaluated round. {advice}"), address)
    if other is data and ours is theirs:
        return ShownView(form, notice("Both sides are the same round. Choose another round, or another run."), address)
    titles = (f"{run.name}, round {ours.round_index}", f"{name}, round {theirs.round_index}")
    return ShownView(form, _compare(data, ours, other, theirs, titles), address)


def _choose(run: RunData, named: str | None, by_default: int) -> RoundData | None:
    """Return the evaluated round of a number, else that at a place among them; `None` if there is none."""
    evaluated = run.evaluated
    found = (data for data in evaluated if str(data.round_index) == named)
    return next(found, evaluated[by_default] if evaluated else None)


def _compare(run: RunData, ours: RoundData, other: RunData, theirs: RoundData, titles: tuple[str, str]) -> str:
    compared = compare_rounds(ours, theirs)
    is_one_run, indices = other is run, (ours.round_index, theirs.round_index)
    # Verifiers of one run have scored the same pools.
    statements = (
        compare_verifiers(run.evaluated, *sorted(indices, reverse=True))
        if is_one_run and len(set(indices)) == 2
        else []
    )
    recipes = (one.recipe.for_round(k).to_dict() for one, k in zip((run, other), indices))
    return render(
        "comparison",
        table=comparison_table(compared, *titles),
        ours=titles[0],
        theirs=titles[1],
        is_paired=any(figure.num_shared for figure in compared),
        statements=statements,
        recipe={key: tuple(map(str, pair)) for key, pair in differences(*recipes).items()},
        flipped=flipped_problems(ours, theirs),
        link=lambda problem_id: "./" + write_link(View(Query(problem_id=problem_id, is_test=True))),
    )


def flipped_problems(ours: RoundData, theirs: RoundData) -> dict[str, list[str]]:
    """
    Test problems on which the verifier is fooled in one of two rounds only, by a sentence that says in which.
    """
    if ours.problems is None or theirs.problems is None:
        return {}
    tables = (ours.problems, theirs.problems)
    sides = [table.set_index("problem_id")["fooled"].dropna().astype(bool) for table in tables]
    shared = sides[0].index.intersection(sides[1].index)
    mine, other = (side.loc[shared] for side in sides)
    return {
        "fooled here, not there": list(shared[mine & ~other]),
        "fooled there, not here": list(shared[~mine & other]),
    }


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
