"""Writes `report.html` and `plots/` of a run folder."""

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pvg_hf.evaluation.report.answers import answers_table
from pvg_hf.evaluation.report.evaluations import confusion_table, evaluations_table, sample_evaluations
from pvg_hf.evaluation.report.examples import NUM_EARLIER_EXAMPLES, Example, choose_examples
from pvg_hf.evaluation.report.noise_tables import channel_table, checks_table, escalation_table, noise_table
from pvg_hf.evaluation.report.plots import PLOTS, Plot
from pvg_hf.evaluation.report.progress import describe_progress
from pvg_hf.evaluation.report.run_data import RunData, load_run
from pvg_hf.evaluation.report.tables import (
    difficulty_table,
    diversity_table,
    pairs_table,
    rounds_table,
    scoring_counts_table,
    sources_table,
    times_table,
)
from pvg_hf.evaluation.report.verdict import write_verdict

TEMPLATE = "report.html.jinja"


@dataclass(frozen=True)
class Image:
    """A plot inside the page: its heading, caption, terms, data URI and width in CSS pixels."""

    title: str
    caption: str
    terms: dict[str, str]
    uri: str
    width: int


def write_report(run_folder: Path) -> Path:
    """
    Write `report.html` and `plots/*.png` into a run folder. Works after any phase.

    The page is one file without a script: it opens offline, and whatever a model wrote stands in it as text.

    Args:
        run_folder (`Path`):
            `runs/NAME`, with at least a `recipe.yaml`.

    Returns:
        `Path`: the page. It, and each plot, is replaced by one rename.

    Raises:
        ValueError: if this is no run folder, or a file in it is damaged.
    """
    run = load_run(run_folder)
    images = _write_plots(run, run_folder / "plots")
    page = run_folder / "report.html"
    _replace(page, render_page(run, images).encode())
    return page


def render_page(run: RunData, images: dict[str, Image]) -> str:
    """The page as text; every value is escaped."""
    return (
        make_environment()
        .get_template(TEMPLATE)
        .render(
            run=run,
            images=images,
            progress=describe_progress(run),
            verdict=write_verdict(run),
            rounds=rounds_table(run),
            answers=answers_table(run),
            sources=sources_table(run),
            evaluations=evaluations_table(run),
            confusion=confusion_table(run),
            evaluated=sample_evaluations(run),
            pairs=pairs_table(run),
            cut=scoring_counts_table(run, "num_cut"),
            unreadable=scoring_counts_table(run, "num_unreadable"),
            diversity=diversity_table(run),
            difficulty=difficulty_table(run),
            times=times_table(run),
            checks=checks_table(run),
            noise=noise_table(run),
            escalations=escalation_table(run),
            channel=channel_table(run),
            examples=_examples(run),
            environment=_flattened(run.environment),
        )
    )


def make_environment(*folders: Path) -> Environment:
    """Templates of the report and of further folders; every value that is put into one is escaped."""
    return Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def embed(plot: Plot, png: bytes) -> Image:
    """A plot, drawn as `png`, to be put into a page."""
    uri = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return Image(plot.title, plot.caption, plot.terms, uri, width=round(plot.canvas.get_figwidth() * 96))


def _write_plots(run: RunData, folder: Path) -> dict[str, Image]:
    images = {}
    for make_plot in PLOTS:
        plot = make_plot(run)
        if plot is not None:
            png = plot.to_png()
            folder.mkdir(exist_ok=True)
            _replace(folder / f"{plot.name}.png", png)
            images[plot.name] = embed(plot, png)
    return images


def _examples(run: RunData) -> dict[int, list[Example]]:
    """Examples by round, the last round first; of earlier rounds a few."""
    minted = [data for data in reversed(run.rounds) if data.solutions is not None]
    num_examples = run.recipe.evaluation.num_examples
    return {
        data.round_index: choose_examples(data, num_examples if data is minted[0] else NUM_EARLIER_EXAMPLES)
        for data in minted
    }


def _flattened(values: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested values as lines `section.key: value`."""
    lines: dict[str, str] = {}
    for key, value in values.items():
        lines |= _flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": str(value)}
    return lines


def _replace(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it: a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_bytes(content)
    os.replace(temporary, path)
