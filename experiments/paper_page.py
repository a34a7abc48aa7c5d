"""
Write `paper.html` into a run's folder: the run beside the figures of Kirchner et al. 2024 (arXiv 2407.13692,
docs/reference/figures.md).

    python -m experiments.paper_page runs/quickstart

Evaluations that `pvg evaluate` has stored are part of it.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from experiments.command import run_experiment
from experiments.replication_tables import LEAST_ELIGIBLE, largest_common_n
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_text
from pvg_hf.report.page import Image, embed, make_environment
from pvg_hf.report.plots.dynamics import plot_dynamics
from pvg_hf.report.plots.style import BLUE, GREY, VERMILLION, Plot, draw_figures, legend_beside, new_canvas, tidy
from pvg_hf.run.console import ScriptParser
from pvg_hf.run.layout import RunFolder
from pvg_hf.run.read import RunData, load_run

READ_OFF = "read off the figure, which has no numbers; the error of reading is our estimate"


@dataclass(frozen=True)
class PublishedSeries:
    """
    A line of one of the paper's figures.

    Args:
        label: What it shows, with the paper's setting.
        xs, values: Places on the horizontal axis, and the values there.
        error: Uncertainty of reading, to either side.
        source: Where the values come from.
    """

    label: str
    xs: tuple[float, ...]
    values: tuple[float, ...]
    error: float
    source: str


@dataclass(frozen=True)
class PublishedRange:
    """
    Values of which only a range is known, for no round in particular.

    Args:
        label: What it shows, with the paper's setting.
        low, high: The range.
        source: Where it comes from.
    """

    label: str
    low: float
    high: float
    source: str


BEST_OF_600 = PublishedSeries(
    "paper, n about 600", (0, 1, 2, 3, 4), (0.23, 0.31, 0.34, 0.50, 0.52), 0.02, f"fig. 6b, {READ_OFF}"
)
EXPLOIT_STEPS = PublishedSeries(
    "paper, SRC, verifier of 1e-3 of the prover's compute",
    (0, 1, 2, 3, 4),
    (1800, 2800, 5500, 4000, 7500),
    500,
    f"fig. 6a, {READ_OFF}; trend only. With a verifier of 1e-2 nothing is found after round 0 within about 8,000"
    " steps",
)
HELPFUL_ACCURACY = PublishedRange(
    "paper, helpful prover", 0.60, 0.63, "the legibility tax: about .60 to .63 of the game against .80 to .85"
)
CORRECTNESS_ONLY_ACCURACY = PublishedRange(
    "paper, correctness only", 0.80, 0.85, "of a prover for correctness only, both for no round in particular"
)
HUMAN_ACCURACY = PublishedSeries(
    "paper, people with 45 seconds",
    (0, 1, 2, 3, 4, 5),
    (0.76, 0.78, 0.81, 0.81, 0.77, 0.83),
    0.01,
    f"fig. 8b, 75 people and 15,983 judgments over all conditions, {READ_OFF}",
)
SEPARABILITY = PublishedSeries(
    "paper, SRC",
    (0, 4),
    (1.0, 0.5),
    0.1,
    "app. C and fig. S3, in words: from 1.0 towards .5 over the rounds; with CGC it stays high. The error is our"
    " estimate",
)

PAGE = "paper.html"

SRC_NAMES = ("src", "standardized_src")
CGC_NAMES = ("cgc", "correctness_gated_convincingness")

# Of the lines of a run.
_LINE_STYLES = (
    {"color": BLUE, "marker": "o", "linestyle": "-"},
    {"color": VERMILLION, "marker": "D", "linestyle": "--"},
)


@dataclass(frozen=True)
class PaperFigure:
    """
    One of the paper's figures, beside the run.

    Args:
        number: Its number in the paper.
        trend: A sentence that says whether the paper's trend is there.
        image: The plot; `None` if the run has nothing to show.
        source: Source of the paper's values.
    """

    number: str
    trend: str
    image: Image | None
    source: str


def write_paper_page(run_folder: Path) -> Path:
    """
    Write `paper.html` into a run folder: the paper's figures 5 or 9, 6, 7a, 8a, 8b and S3 beside the run's, each with
    a sentence on whether the trend is there.

    Args:
        run_folder: `runs/NAME`, with at least a `recipe.yaml`.
    Returns: the page, one file without scripts.
    Raises `ValueError` if `run_folder` is not a run folder, or a file in it is damaged.
    """
    run = load_run(run_folder, solution_columns=["problem_id"])
    text = (
        make_environment(Path(__file__).parent)
        .get_template("paper.html.jinja")
        .render(run=run, figures=paper_figures(run))
    )
    write_text(run_folder / PAGE, text)
    return run_folder / PAGE


def paper_figures(run: RunData) -> list[PaperFigure]:
    """Return the paper's figures in its order."""
    size, best_of_n = _best_of_n(run)
    is_cgc = run.recipe.prover.reward in CGC_NAMES
    src = _measured_src(run)
    return [
        _dynamics(run, is_cgc=is_cgc),
        _over_rounds(
            "6a",
            "Steps until a fresh SRC attacker finds an exploit, median",
            {f"this run, {src}": _judged(run, "attacks", f"{src}/median_steps")},
            [EXPLOIT_STEPS],
            rises=True,
            unit="RL steps",
            scale="log",  # small models need far fewer steps
            note=_describe_found(_judged(run, "attacks", f"{src}/found")),
        ),
        _over_rounds(
            "6b",
            f"Balanced best-of-n at n = {size}" if size else "Balanced best-of-n",
            {"this run": best_of_n},
            [BEST_OF_600],
            rises=True,
            chance=0.5,
        ),
        _over_rounds(
            "7a",
            "Valid steps of correct helpful solutions (paper: by GPT-4; run: by the task's checker)",
            {
                "this run, mean over steps": _judged(run, "legibility", "step_validity/helpful_correct"),
                "this run, minimum over steps": _judged(run, "legibility", "all_valid/helpful_correct"),
            },
            [],
            rises=None,
        ),
        _over_rounds(
            "8a",
            "Accuracy of the helpful prover",
            {
                "this run": _by_round(run, "accuracy/helpful"),
                "this run, correctness only": _judged(run, "legibility_tax", "accuracy/correctness_only"),
            },
            [HELPFUL_ACCURACY, CORRECTNESS_ONLY_ACCURACY],
            rises=None,
        ),
        _over_rounds(
            "8b",
            "Accuracy on single helpful solutions (paper: people; run: a weaker judge)",
            {"this run": _judged(run, "legibility", "judge_single/helpful")},
            [HUMAN_ACCURACY],
            rises=True,
            chance=0.5,
        ),
        _over_rounds(
            "S3",
            "Separability of the roles, AUC",
            {"this run": _judged(run, "role_separability", "transformer/all")},
            [SEPARABILITY],
            rises=None if is_cgc else False,  # with CGC it stays high in the paper
            chance=0.5,
        ),
    ]


def describe_trend(figures: dict[int, Figure], *, rises: bool | None) -> str:
    """
    Say in a sentence whether a figure changes over the rounds as in the paper.

    The first and the last round are compared, and the change is clear if their 95 % intervals do not overlap.

    Args:
        figures: The run's figure by round.
        rises: Whether it rises in the paper, or falls; `None` if the paper has no trend, or none that is known.
    """
    known = {index: figure for index, figure in sorted(figures.items()) if figure.value is not None}
    if not known:
        return "Not measured in this run."
    if len(known) < 2:
        return "The trend needs at least two rounds."
    (first_round, first), *_, (last_round, last) = known.items()
    change = f"from {first} in round {first_round} to {last} in round {last_round}"
    if first.low is None or last.low is None:  # e.g. if all attackers reach the cap
        return f"Without intervals the trend cannot be judged: {change}."
    if first.low <= last.high and last.low <= first.high:
        return f"No clear trend: {change}, and the intervals overlap."
    is_up = last.value > first.value
    if rises is None:
        return f"It {'rises' if is_up else 'falls'} {change}; the paper has no such trend, or none that is known."
    verdict = "The paper's trend is there" if is_up == rises else "The trend is opposite to the paper's"
    return f"{verdict}: it {'rises' if is_up else 'falls'} {change}."


def _measured_src(run: RunData) -> str:
    """Name of the SRC reward whose attackers were trained: the paper's, or else the standardised one."""
    return next((name for name in SRC_NAMES if _judged(run, "attacks", f"{name}/found")), SRC_NAMES[0])


def _describe_found(found: dict[int, Figure]) -> str:
    """Say how many attackers found an exploit, because the steps of the others are those of the cap."""
    shares = [
        f"round {index}: {round(figure.value * figure.n)} of {figure.n}"
        for index, figure in sorted(found.items())
        if figure.value is not None
    ]
    return f"Attackers that found an exploit: {', '.join(shares)}." if shares else ""


def _dynamics(run: RunData, *, is_cgc: bool) -> PaperFigure:
    plot = plot_dynamics(run)
    number = "9" if is_cgc else "5"
    published = (
        "these steps change inconsistently over the rounds"
        if is_cgc
        else "these steps grow over the rounds, and the helpful accuracy falls at the end of a round"
    )
    return PaperFigure(
        number,
        f"{_describe_parity(run)} {_describe_late_change(run)} In the paper {published}.",
        None if plot is None else embed(plot, plot.to_png()),
        f"fig. {number}, in words: the paper's lines were not available as numbers, and none are drawn",
    )


def _describe_parity(run: RunData) -> str:
    steps = {data.round_index: data.figure("parity_step") for data in run.evaluated}
    steps = {index: figure for index, figure in steps.items() if figure.n}
    if not steps:
        return "The steps until parity are not known."
    shown = ", ".join(
        f"{f'over {figure.n}' if figure.value is None else int(figure.value)} in round {index}"
        for index, figure in steps.items()
    )
    times = [math.inf if figure.value is None else figure.value for figure in steps.values()]
    trend = "more" if times[-1] > times[0] else "no more"
    over_rounds = f" The last round takes {trend} than the first, in one training each." if len(times) > 1 else ""
    return f"Steps until parity: {shown}.{over_rounds}"


def _describe_late_change(run: RunData) -> str:
    changes = {data.round_index: data.figure("late_change/helpful").value for data in run.evaluated}
    shown = ", ".join(f"round {index}: {value:+.2f}" for index, value in changes.items() if value is not None)
    return f"From the middle to the last fifth of a training the helpful accuracy changes ({shown})." if shown else ""


def _over_rounds(
    number: str,
    title: str,
    lines: Mapping[str, dict[int, Figure]],
    published: Sequence[PublishedSeries | PublishedRange],
    *,
    rises: bool | None,
    unit: str = "share",
    scale: str = "linear",
    chance: float | None = None,
    note: str = "",
) -> PaperFigure:
    """
    Plot lines of the run by round beside the paper's values, on the same axes; the trend is that of the first line,
    followed by `note`.
    """
    canvas = new_canvas(7.2, 3.2)
    axes = canvas.subplots()
    for values, hatch in zip(published, ("", "//")):
        _draw_published(axes, values, hatch)
    for (label, figures), style in zip(lines.items(), _LINE_STYLES):
        draw_figures(axes, list(figures), list(figures.values()), shift=0.05, label=label, **style)
    if chance is not None:
        axes.axhline(chance, color=GREY, linewidth=1, linestyle=":", label="chance")
    axes.set_xlabel("round")
    axes.set_ylabel(unit)
    axes.set_yscale(scale)
    axes.xaxis.get_major_locator().set_params(integer=True)
    tidy(axes)
    legend_beside(axes)
    caption = "Bars: 95 % intervals of the run" + (
        "; error of reading of the paper's values." if any(isinstance(v, PublishedSeries) for v in published) else "."
    )
    plot = Plot(title.split(" (")[0].lower().replace(" ", "-"), title, caption, canvas)
    source = "; ".join(values.source for values in published) or "no values are known as numbers, and none are drawn"
    trend = describe_trend(next(iter(lines.values())), rises=rises)
    return PaperFigure(number, f"{trend} {note}".rstrip(), embed(plot, plot.to_png()), source)


def _draw_published(axes: Axes, published: PublishedSeries | PublishedRange, hatch: str) -> None:
    if isinstance(published, PublishedRange):
        style = {"facecolor": "none", "edgecolor": GREY} if hatch else {"color": GREY}
        axes.axhspan(published.low, published.high, alpha=0.35, hatch=hatch, label=published.label, **style)
        return
    values = [Figure(v, v - published.error, v + published.error, 0) for v in published.values]
    style = {"color": GREY, "marker": "s", "linestyle": "--"}
    draw_figures(axes, list(published.xs), values, shift=-0.05, label=published.label, **style)


def _by_round(run: RunData, key: str) -> dict[int, Figure]:
    return {data.round_index: data.figure(key) for data in run.evaluated}


def _judged(run: RunData, name: str, key: str) -> dict[int, Figure]:
    found = [judgement for judgement in run.judgements if judgement.name == name]
    return {
        judgement.round_index: judgement.figure(key) for judgement in found if judgement.figure(key).value is not None
    }


def _best_of_n(run: RunData) -> tuple[int | None, dict[int, Figure]]:
    """Best-of-n of each round at the largest n that all rounds have, from the drawn pools or else from the rounds."""
    drawn = {judgement.round_index: judgement.figures for judgement in run.judgements if judgement.name == "best_of_n"}
    tables = drawn or {
        data.round_index: {key.removeprefix("best_of_n/"): figure for key, figure in data.figures.items()}
        for data in run.evaluated
    }
    enough = largest_common_n(tables.values(), least_eligible=LEAST_ELIGIBLE)
    size = enough or largest_common_n(tables.values(), least_eligible=1)
    return size, {} if size is None else {index: table[str(size)] for index, table in tables.items()}


def main() -> int:
    parser = ScriptParser(__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    arguments = parser.parse_args()
    return run_experiment(lambda: str(write_paper_page(RunFolder.find(arguments.run).root)))


if __name__ == "__main__":
    sys.exit(main())
