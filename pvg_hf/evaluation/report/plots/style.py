"""One look for all plots: Okabe and Ito's colours, which colour-blind readers tell apart, and a line style to each."""

import io
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role

BLUE, SKY, ORANGE, VERMILLION, GREEN, GREY = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#666666"
DPI = 160

Style = dict[str, Any]

ROLE_STYLES: dict[Role, Style] = {
    Role.HELPFUL: {"color": BLUE, "linestyle": "-", "marker": "o", "label": "helpful"},
    Role.SNEAKY: {"color": VERMILLION, "linestyle": "--", "marker": "s", "label": "sneaky"},
}
CELL_STYLES: dict[str, Style] = {
    "helpful_correct": {"color": BLUE, "linestyle": "-", "label": "helpful, correct"},
    "helpful_incorrect": {"color": SKY, "linestyle": ":", "label": "helpful, incorrect"},
    "sneaky_correct": {"color": ORANGE, "linestyle": "-.", "label": "sneaky, correct"},
    "sneaky_incorrect": {"color": VERMILLION, "linestyle": "--", "label": "sneaky, incorrect"},
}
_MARKERS = "osD^vP*X"
_LINES = ("-", "--", "-.", ":")
_LEGEND = {"frameon": False, "fontsize": 9, "handlelength": 3.2}


@dataclass(frozen=True)
class Plot:
    """
    A plot of the report.

    Args:
        name (`str`):
            Its file is `plots/NAME.png`.
        title (`str`), caption (`str`):
            Heading, and what is shown with its n.
        canvas ([`~matplotlib.figure.Figure`]):
            The plot.
        terms (`dict[str, str]`):
            The terms on it, each with a definition of one line.
    """

    name: str
    title: str
    caption: str
    canvas: Canvas
    terms: dict[str, str] = field(default_factory=dict)

    def to_png(self) -> bytes:
        """Equal plots give equal bytes with one version of matplotlib."""
        buffer = io.BytesIO()
        self.canvas.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
        return buffer.getvalue()


def new_canvas(width: float, height: float) -> Canvas:
    """A blank white canvas, in inches; white also on a dark page, so that the colours keep their contrast."""
    return Canvas(figsize=(width, height), layout="constrained", facecolor="white")


def tidy(axes: Axes) -> None:
    """A light grid, and no frame above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)


def round_style(position: int, num_rounds: int) -> Style:
    """Colour from dark to light over the rounds, and a marker and line of its own for each."""
    color = mpl.colormaps["viridis"](0.85 * position / max(1, num_rounds - 1))
    marker, line = _MARKERS[position % len(_MARKERS)], _LINES[position % len(_LINES)]
    return {"color": color, "marker": marker, "linestyle": line}


def draw_figures(axes: Axes, xs: list[float], figures: list[Figure], *, shift: float = 0.0, **style: Any) -> None:
    """
    A line through values with their 95 % intervals; empty figures are left out.

    Args:
        axes ([`~matplotlib.axes.Axes`]):
            Where.
        xs (`list[float]`), figures (`list[Figure]`):
            Equally many.
        shift (`float`, *optional*, defaults to `0.0`):
            Moves the points sideways, so that the intervals of two lines do not hide each other.
        **style (`Any`):
            Of the line.
    """
    points = [(x + shift, figure) for x, figure in zip(xs, figures) if figure.value is not None]
    if not points:
        return
    values = np.array([figure.value for _, figure in points])
    bounds = [(f.value if f.low is None else f.low, f.value if f.high is None else f.high) for _, f in points]
    low, high = np.array(bounds).T
    axes.errorbar(
        [x for x, _ in points],
        values,
        yerr=[values - np.minimum(low, values), np.maximum(high, values) - values],
        capsize=2.5,
        linewidth=1.8,
        elinewidth=1.2,
        markersize=5.5,
        **style,
    )


def legend_below(canvas: Canvas, num_columns: int = 4) -> None:
    """One legend under all panels, each entry once."""
    entries = {}
    for axes in canvas.axes:
        entries |= dict(zip(*reversed(axes.get_legend_handles_labels())))
    canvas.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=num_columns, **_LEGEND)


def legend_beside(axes: Axes) -> None:
    """A legend to the right of a panel, where it hides nothing; none for a panel without a line."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **_LEGEND)


def legend_under(axes: Axes) -> None:
    """A legend under a panel and its axis label; none for a panel without a line."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), **_LEGEND)
