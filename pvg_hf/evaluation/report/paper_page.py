"""Writes `paper.html` of a run folder: its figures beside those of Kirchner et al. 2024 (arXiv 2407.13692)."""

from dataclasses import dataclass
from pathlib import Path

from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_text
from pvg_hf.evaluation.best_of_n import largest_common_n
from pvg_hf.evaluation.report.page import Image, embed, make_environment
from pvg_hf.evaluation.report.plots.dynamics import plot_dynamics
from pvg_hf.evaluation.report.plots.style import BLUE, GREY, Plot, draw_figures, legend_beside, new_canvas, tidy
from pvg_hf.evaluation.report.published_values import (
    BEST_OF_600,
    EXPLOIT_STEPS,
    HELPFUL_ACCURACY,
    HUMAN_ACCURACY,
    SEPARABILITY,
    PublishedSeries,
)
from pvg_hf.run.read import RunData, load_run

PAGE = "paper.html"


@dataclass(frozen=True)
class PaperFigure:
    """
    One of the paper's figures, beside the run.

    Args:
        number (`str`):
            Its number in the paper.
        trend (`str`):
            A sentence that says whether the paper's trend is there.
        image ([`~pvg_hf.evaluation.report.page.Image`], *optional*):
            The plot; `None` if the run has nothing to show.
        source (`str`):
            Source of the paper's values.
    """

    number: str
    trend: str
    image: Image | None
    source: str


def write_paper_page(run_folder: Path) -> Path:
    """
    Write `paper.html` into a run folder: the paper's figures 5, 6, 8, 9 and S3 beside the run's, each with a sentence on
    whether the trend is there.

    Args:
        run_folder (`Path`):
            `runs/NAME`, with at least a `recipe.yaml`.

    Returns:
        `Path`: the page, one file without scripts.

    Raises:
        ValueError: if `run_folder` is not a run folder, or a file in it is damaged.
    """
    run = load_run(run_folder, solution_columns=["problem_id"])
    text = make_environment().get_template("paper.html.jinja").render(run=run, figures=paper_figures(run))
    write_text(run_folder / PAGE, text)
    return run_folder / PAGE


def paper_figures(run: RunData) -> list[PaperFigure]:
    """Return the paper's figures in its order."""
    return [
        _dynamics(run),
        _over_rounds(
            "6a",
            "Steps until a fresh SRC attacker finds an exploit; none counts as the cap",
            _judged(run, "attacks", "src/mean_steps"),
            EXPLOIT_STEPS,
            rises=True,
            unit="RL steps",
        ),
        _over_rounds(
            "6b", "Balanced best-of-n at the largest n", _best_of_n(run), BEST_OF_600, rises=True, chance=0.5
        ),
        _over_rounds(
            "8a", "Accuracy of the helpful prover", _by_round(run, "accuracy/helpful"), HELPFUL_ACCURACY, rises=True
        ),
        _over_rounds(
            "8b",
            "Accuracy on single helpful solutions (paper: people; run: a weaker judge)",
            _judged(run, "legibility", "judge_single/helpful"),
            HUMAN_ACCURACY,
            rises=True,
            chance=0.5,
        ),
        _over_rounds(
            "S3",
            "Separability of the roles, AUC",
            _judged(run, "role_separability", "transformer/all"),
            SEPARABILITY,
            rises=False,
            chance=0.5,
        ),
    ]


def describe_trend(figures: dict[int, Figure], *, rises: bool) -> str:
    """
    Say in a sentence whether a figure changes over the rounds as in the paper.

    The first and the last round are compared, and the change is clear if their 95 % intervals do not overlap.

    Args:
        figures (`dict[int, Figure]`):
            The run's figure by round.
        rises (`bool`):
            Whether it rises in the paper; otherwise it falls.
    """
    known = {index: figure for index, figure in sorted(figures.items()) if figure.low is not None}
    if not known:
        return "Not measured in this run."
    if len(known) < 2:
        return "The trend needs at least two rounds with an interval."
    (first_round, first), *_, (last_round, last) = known.items()
    change = f"from {first} in round {first_round} to {last} in round {last_round}"
    if first.low <= last.high and last.low <= first.high:
        return f"No clear trend: {change}, and the intervals overlap."
    is_up = last.value > first.value
    verdict = "The paper's trend is there" if is_up == rises else "The trend is opposite to the paper's"
    return f"{verdict}: it {'rises' if is_up else 'falls'} {change}."


def _dynamics(run: RunData) -> PaperFigure:
    plot = plot_dynamics(run)
    steps = [(data.round_index, data.figure("parity_step")) for data in run.evaluated]
    reached = ", ".join(
        f"round {index}: {'not in ' + str(figure.n) if figure.value is None else int(figure.value)} steps"
        for index, figure in steps
        if figure.n
    )
    number = "9" if run.recipe.prover.reward in ("cgc", "correctness_gated_convincingness") else "5"
    wanted = (
        "inconsistent over rounds"
        if number == "9"
        else "growing over rounds, with a helpful accuracy that falls at the end of a round"
    )
    found = f"The steps until parity are {reached}." if reached else "The steps until parity are not known."
    return PaperFigure(
        number,
        f"{found} In the paper they are {wanted}.",
        None if plot is None else embed(plot, plot.to_png()),
        f"fig. {number}, in words: the paper's lines were not available as numbers, and none are drawn",
    )


def _over_rounds(
    number: str,
    title: str,
    figures: dict[int, Figure],
    published: PublishedSeries,
    *,
    rises: bool,
    unit: str = "share",
    chance: float | None = None,
) -> PaperFigure:
    image = _series_image(title, unit, figures, published, chance=chance)
    return PaperFigure(number, describe_trend(figures, rises=rises), image, published.source)


def _series_image(
    title: str, unit: str, figures: dict[int, Figure], published: PublishedSeries, *, chance: float | None = None
) -> Image:
    """Plot the run's figures by round beside the paper's values, on the same axes."""
    canvas = new_canvas(7.2, 3.2)
    axes = canvas.subplots()
    theirs = [Figure(v, v - published.error, v + published.error, 0) for v in published.values]
    style = {"color": GREY, "marker": "s", "linestyle": "--"}
    draw_figures(axes, list(published.xs), theirs, shift=-0.05, label=published.label, **style)
    draw_figures(
        axes,
        list(figures),
        list(figures.values()),
        shift=0.05,
        label="this run",
        color=BLUE,
        marker="o",
        linestyle="-",
    )
    if chance is not None:
        axes.axhline(chance, color=GREY, linewidth=1, linestyle=":", label="chance")
    axes.set_xlabel("round")
    axes.set_ylabel(unit)
    axes.xaxis.get_major_locator().set_params(integer=True)
    tidy(axes)
    legend_beside(axes)
    caption = "Bars: 95 % intervals of the run; error of reading of the paper's values."
    plot = Plot(title.split(" (")[0].lower().replace(" ", "-"), title, caption, canvas)
    return embed(plot, plot.to_png())


def _by_round(run: RunData, key: str) -> dict[int, Figure]:
    return {data.round_index: data.figure(key) for data in run.evaluated}


def _judged(run: RunData, name: str, key: str) -> dict[int, Figure]:
    found = [judgement for judgement in run.judgements if judgement.name == name]
    return {judgement.round_index: judgement.figure(key) for judgement in found}


def _best_of_n(run: RunData) -> dict[int, Figure]:
    """Best-of-n of each round at the largest n that all rounds have, from the drawn pools or else from the rounds."""
    drawn = [judgement for judgement in run.judgements if judgement.name == "best_of_n"]
    tables = {j.round_index: {k: f for k, f in j.figures.items() if k.isdigit()} for j in drawn} or {
        data.round_index: {
            key.removeprefix("best_of_n/"): figure
            for key, figure in data.figures.items()
            if key.startswith("best_of_n/")
        }
        for data in run.evaluated
    }
    size = largest_common_n(tables.values(), least_eligible=1)
    return {} if size is None else {index: table[str(size)] for index, table in tables.items()}
