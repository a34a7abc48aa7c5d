"""Writes `report.html` and `plots/` of a run folder."""

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pvg_hf.config import Recipe
from pvg_hf.config.recipe import leaves
from pvg_hf.core.commands import pvg_command
from pvg_hf.core.files import write_bytes, write_text
from pvg_hf.core.registrations import registered
from pvg_hf.core.versions import show_versions
from pvg_hf.data.schema import OUTCOME_WORDS
from pvg_hf.report.escaping import show_preformatted, show_text
from pvg_hf.report.examples import NUM_EARLIER_EXAMPLES, Example, choose_examples, sample_evaluations
from pvg_hf.report.headline import write_headline, write_tiles
from pvg_hf.report.pilot_findings import Pilot
from pvg_hf.report.plots import PLOTS
from pvg_hf.report.plots.style import Plot
from pvg_hf.report.statements import describe_progress, write_verdict
from pvg_hf.report.tables import TABLES, acceptance_tables, count_noun, judgement_tables, pilot_table, pools_tables
from pvg_hf.run.environment import launcher_for
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import RunData, load_run

TEMPLATE = "report.html.jinja"

_NAMED = ("pvg_hf", "python", "torch", "transformers", "trl")  # versions in the header; all others are at the end


@dataclass(frozen=True)
class Image:
    """A plot embedded in the page: heading, caption, explained terms, data URI, and width in CSS pixels."""

    title: str
    caption: str
    terms: dict[str, str]
    uri: str
    width: int


def write_report(run_folder: Path) -> Path:
    """
    Write `report.html` and `plots/*.png` into a run folder, and return the page. It works after any phase.

    The page is one file without scripts: it opens offline, and everything that a model wrote is escaped. The page and
    each plot are replaced atomically.

    Raises:
        ValueError: if `run_folder` is not a run folder, or a file in it is damaged.
    """
    run = load_run(run_folder)
    images, further = (_write_plots(run, plots, run_folder / "plots") for plots in (PLOTS, registered("plot")))
    page = run_folder / "report.html"
    write_text(page, render_page(run, images, further))
    return page


def render_page(run: RunData, images: dict[str, Image], further_images: dict[str, Image]) -> str:
    """Render the page as HTML; every value is escaped."""
    pilot = Pilot(run.recipe, run.pilot)
    template = make_environment().get_template(TEMPLATE)
    return template.render(
        run=run,
        images=images,
        progress=describe_progress(run),
        origin=_origin(run),
        rewards=describe_rewards(run.recipe),
        command=_command(run),
        count_noun=count_noun,
        headline=write_headline(run.evaluated),
        tiles=write_tiles(run.evaluated),
        verdict=write_verdict(run),
        tables={**{name: make(run) for name, make in TABLES.items()}, "pilot": pilot_table(pilot)},
        pools=pools_tables(run),
        acceptance=acceptance_tables(run),
        further=[kind.report_section(run) for kind in registered("solution kind")],
        further_images=further_images,
        evaluated=sample_evaluations(run),
        pilot_texts={OUTCOME_WORDS[outcome]: rows for outcome, rows in pilot.examples().items()},
        judged=judgement_tables(run),
        examples=_examples(run),
        environment=leaves(run.environment),
    )


def make_environment(*folders: Path) -> Environment:
    """Jinja environment for the report's templates and those in `folders`; every value is escaped."""
    environment = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": show_text, "preformatted": show_preformatted, "headings": _headings}
    return environment


def embed(plot: Plot, png: bytes) -> Image:
    """Embed a plot's PNG in an [`Image`]."""
    uri = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return Image(plot.title, plot.caption, plot.terms, uri, width=round(plot.canvas.get_figwidth() * 96))


def _headings(page: Markup) -> list[tuple[str, Markup]]:
    """Id and title of every second-level heading with an id, for the table of contents."""
    return [(name, Markup(title)) for name, title in re.findall(r'<h2 id="([\w-]+)">(.*?)</h2>', page)]


def _origin(run: RunData) -> dict[str, str]:
    """Dates and versions of the run, by heading."""
    known = [event for event in run.events if event.get("time") is not None]
    # Not in the order of the log: a run that was pulled logs its earlier events again.
    ends = [*(event["time"] - event.get("seconds", 0) for event in known), *(event["time"] for event in known)]
    days = [datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M") for time in sorted(ends)]
    environment = run.environment
    named = {name: version for name, version in environment.get("versions", {}).items() if name in _NAMED}
    lines = {
        "Played": f"{days[0]} to {days[-1]} UTC" if days else "",
        "With": ", ".join(filter(None, [show_versions(named), run.commit])),
    }
    return {name: text for name, text in lines.items() if text}


def describe_rewards(recipe: Recipe) -> str:
    """The prover's reward, e.g. `reward src`, with rounds that differ: `reward src, in round 2 cgc`."""
    reward = recipe.prover.reward
    of_round = {k: recipe.for_round(k).prover.reward for k in range(recipe.num_rounds) if k in recipe.rounds}
    others = [f"in round {k} {name}" for k, name in sorted(of_round.items()) if name != reward]
    return ", ".join([f"reward {reward}", *others])


def _command(run: RunData) -> str:
    """Command line that plays the recipe again, without the path of the folder that was read: pages are published."""
    num_processes = run.environment.get("num_processes", 1)
    return pvg_command(
        "play", RunFolder.of(run.recipe).root, f"name={run.recipe.name}-again", launcher=launcher_for(num_processes)
    )


def _write_plots(run: RunData, plots: Iterable[Callable[[RunData], Plot | None]], folder: Path) -> dict[str, Image]:
    images = {}
    for make_plot in plots:
        plot = make_plot(run)
        if plot is not None:
            png = plot.to_png()
            write_bytes(folder / f"{plot.name}.png", png)
            images[plot.name] = embed(plot, png)
    return images


def _examples(run: RunData) -> dict[int, list[Example]]:
    """Examples by round, the last round first; earlier rounds show only a few."""
    minted = [data for data in reversed(run.rounds) if data.solutions is not None]
    num_examples = run.recipe.evaluation.num_examples
    return {
        data.round_index: choose_examples(data, num_examples if data is minted[0] else NUM_EARLIER_EXAMPLES)
        for data in minted
    }
