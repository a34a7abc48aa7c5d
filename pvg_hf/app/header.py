"""Header of every page: the run and how far it has got; and the report's verdict on it."""

from collections.abc import Callable

import gradio as gr

from pvg_hf.app.events import FAST
from pvg_hf.app.render import render
from pvg_hf.app.runs import OpenRun
from pvg_hf.config import Recipe
from pvg_hf.core.stopwatch import describe_shares
from pvg_hf.report.headline import write_headline, write_tiles
from pvg_hf.report.page import describe_rewards
from pvg_hf.report.statements import alert_statement, describe_progress
from pvg_hf.report.tables import count_noun, duration
from pvg_hf.run.lock import find_holder
from pvg_hf.run.read import RunData, name_phase

REFRESH_SECONDS = 10.0
"""Time between two looks at the run's files, while a page is open."""


def build_header(demo: gr.Blocks, run: OpenRun) -> None:
    """Build the header. It must be called within the context of `demo`."""
    _build_refreshed(demo, lambda: show_header(run), "run-header")


def build_verdict(demo: gr.Blocks, run: OpenRun) -> None:
    """Build the verdict of the report. It must be called within the context of `demo`."""
    _build_refreshed(demo, lambda: show_verdict(run), "verdict")


def _build_refreshed(demo: gr.Blocks, show: Callable[[], str], elem_id: str) -> None:
    shown = gr.HTML(elem_id=elem_id)
    gr.on([demo.load, gr.Timer(REFRESH_SECONDS).tick], show, None, shown, **FAST)


def show_header(run: OpenRun) -> str:
    """Render the run's name, recipe, models, seed, commit, state and alerts."""
    try:
        data = run.data()
    except (ValueError, OSError):  # the page itself says which file is damaged
        return render("header", name=run.name, facts=[], state="", time="", alerts=None, messages=[], notes=[])
    recipe = data.recipe
    facts = describe_recipe(recipe) + ([data.commit] if data.commit else [])
    facts = [f"recipe {recipe.name}", *facts] if recipe.name != run.name else facts
    holder = find_holder(run.folder.root)
    state = describe_progress(data) + (f" Process {holder} plays it." if holder else "")
    messages = [f"{name_phase(event['round'], event['phase'])}: {event['message']}" for event in data.alerts]
    return render(
        "header",
        name=run.name,
        facts=facts,
        state=state,
        time=_last_time(data),
        alerts=alert_statement(data),
        messages=messages,
        notes=run.notes(),
    )


def describe_recipe(recipe: Recipe) -> list[str]:
    """List what a game was played with: task, reward, rounds, models and seed."""
    verifier = f"verifier {recipe.verifier.kind.replace('_', '-')} ({_model(recipe.verifier)})"
    facts = [f"task {recipe.task.name}", describe_rewards(recipe), count_noun(recipe.num_rounds, "round")]
    return [*facts, f"prover {_model(recipe.prover)}", verifier, f"seed {recipe.seed}"]


def _model(player) -> str:
    return "from scratch" if player.scratch else player.model


def _last_time(data: RunData) -> str:
    """Duration of the phase that finished last, with the kinds of work that it was spent on, if they are recorded."""
    seconds, splits = data.phase_seconds(), data.phase_splits()
    if not seconds:
        return ""
    last = list(seconds)[-1]
    shares = describe_shares(splits[last]) if last in splits else ""
    return f"{name_phase(*last)}: {duration(seconds[last])}{f' ({shares})' if shares else ''}"


def show_verdict(run: OpenRun) -> str:
    """Render the report's sentence and figures."""
    try:
        evaluated = run.data().evaluated
    except (ValueError, OSError):  # the page itself says which file is damaged
        return ""
    return render("verdict", headline=write_headline(evaluated), tiles=write_tiles(evaluated))
