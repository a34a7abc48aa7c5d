"""
Common style of all plots: Okabe and Ito's colour-blind-safe palette, with a different line style for each colour.
"""

import io
from collections.abc import Sequence
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
SHARES = (-0.02, 1.02)  # limits of an axis of shares, on which points at 0 and 1 are whole

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
    """A plot of the report, saved as `plots/NAME.png`; `terms` are used in it, each with a one-line definition."""

    name: str
    title: str
    caption: str
    canvas: Canvas
    terms: dict[str, str] = field(default_factory=dict)

    def to_png(self) -> bytes:
        """Render the plot as PNG. Equal plots give equal bytes with the same version of matplotlib."""
        buffer = io.BytesIO()
        # `Software` would write matplotlib's version into the file.
        self.canvas.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
        return buffer.getvalue()


def new_canvas(width: float, height: float) -> Canvas:
    """
    Create an empty canvas, sized in inches. It is white even on a dark page, so that the colours keep their contrast.
    """
    return Canvas(figsize=(width, height), layout="constrained", facecolor="white")


def tidy(axes: Axes) -> None:
    """Style axes: a light grid, and no frame at the top and on the right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)


def round_style(position: int, num_rounds: int) -> Style:
    """Style of a round: colours go from dark to light over the rounds; marker and line style also differ."""
    color = mpl.colormaps["viridis"](0.85 * position / max(1, num_rounds - 1))
    marker, line = _MARKERS[position % len(_MARKERS)], _LINES[position % len(_LINES)]
    return {"color": color, "marker": marker, "linestyle": line}


def draw_figures(axes: Axes, xs: Sequence[float], figures: list[Figure], *, shift: float = 0.0, **style: Any) -> None:
    """Draw a line through values with their intervals; `shift` moves it sideways, off other lines' intervals."""
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
    """Add one legend under all panels, with each entry once."""
    entries: dict[Any, Any] = {}
    for axes in canvas.axes:
        entries |= dict(zip(*reversed(axes.get_legend_handles_labels())))
    canvas.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=num_columns, **_LEGEND)


def legend_beside(axes: Axes) -> None:
    """Add a legend to the right of a panel, unless the panel is empty."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **_LEGEND)


def legend_under(axes: Axes) -> None:
    """Add a legend under a panel and its axis label, unless the panel is empty."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), **_LEGEND)
