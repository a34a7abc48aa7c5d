"""Verifiers x pools: the share of each pool's sneaky mistakes that each verifier accepts."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle

from pvg_hf.core.figure import Figure
from pvg_hf.evaluation.catalogue import explain
from pvg_hf.report.plots.style import SHARES, Plot, draw_figures, legend_beside, new_canvas, round_style, tidy
from pvg_hf.report.tables import pool_cells, pool_heading
from pvg_hf.run.read import RunData

Cells = dict[tuple[int, int], Figure]

MAX_BESIDE = 5  # pools; with more, the second panel is below the first
DARK = 0.8  # share from which a cell is dark enough for white text
TERMS = {
    "pool": "the test solutions of one prover in both roles; every verifier of a column judges the same solutions.",
    **explain(["pools/accepted/verifier/pool"]),
    "framed": "the verifier that the pool's prover was trained against.",
}


def plot_pool_matrix(run: RunData) -> Plot | None:
    """Shares as a matrix with a row per verifier and a column per pool, and as a line per pool."""
    cells = {key: figure for key, figure in pool_cells(run, "accepted").items() if figure.value is not None}
    if not cells:
        return None
    return Plot("pools", "Does a later verifier accept fewer mistakes?", _caption(cells), draw_pools(cells), TERMS)


def draw_pools(cells: Cells) -> Canvas:
    """Draw each verifier's share of each pool's sneaky mistakes accepted, as a matrix and as lines."""
    verifiers, pools = _verifiers_and_pools(cells)
    width, height = _matrix_size(verifiers, pools)
    if len(pools) <= MAX_BESIDE:
        canvas = new_canvas(width + 4.6, max(3.6, height))
        matrix, lines = canvas.subplots(1, 2, width_ratios=[width, 4.6])
    else:
        canvas = new_canvas(width, height + 3.6)
        matrix, lines = canvas.subplots(2, 1, height_ratios=[height, 3.6])
    _draw_matrix(matrix, cells, verifiers, pools)
    _draw_lines(lines, cells, verifiers, pools)
    return canvas


def draw_pool_map(cells: Cells) -> Canvas:
    """Draw the matrix of [`draw_pools`] alone."""
    verifiers, pools = _verifiers_and_pools(cells)
    canvas = new_canvas(*_matrix_size(verifiers, pools))
    _draw_matrix(canvas.subplots(), cells, verifiers, pools)
    return canvas


def _verifiers_and_pools(cells: Cells) -> tuple[list[int], list[int]]:
    verifiers, pools = (sorted({key[index] for key in cells}) for index in (0, 1))
    return verifiers, pools


def _matrix_size(verifiers: list[int], pools: list[int]) -> tuple[float, float]:
    """Width and height of the matrix, in inches."""
    return 1.6 + 1.15 * len(pools), 1.3 + 0.75 * len(verifiers)


def _draw_matrix(axes: Axes, cells: Cells, verifiers: list[int], pools: list[int]) -> None:
    shares = [[cells[v, p].known if (v, p) in cells else float("nan") for p in pools] for v in verifiers]
    axes.imshow(shares, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    for (verifier, pool), figure in cells.items():
        row, column = verifiers.index(verifier), pools.index(pool)
        # A mean's interval by Student's t may end where no share is, below 0 or above 1.
        interval = "" if figure.low is None else f"\n[{max(figure.low, 0):.2f}, {min(figure.bounds[1], 1):.2f}]"
        color = "white" if figure.known >= DARK else "black"
        axes.text(column, row, f"{figure.value:.2f}{interval}", ha="center", va="center", fontsize=9, color=color)
        if verifier == pool:
            axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, fill=False, linewidth=2))
    axes.set_xticks(range(len(pools)), [pool_heading(pool).replace(" ", "\n") for pool in pools], fontsize=9)
    axes.set_yticks(range(len(verifiers)), [f"verifier {verifier}" for verifier in verifiers], fontsize=9)
    axes.set_xlabel("sneaky mistakes of")
    axes.spines[:].set_visible(False)


def _draw_lines(axes: Axes, cells: Cells, verifiers: list[int], pools: list[int]) -> None:
    for position, pool in enumerate(pools):
        known = [verifier for verifier in verifiers if (verifier, pool) in cells]
        shift = 0.06 * (position - (len(pools) - 1) / 2)
        style = round_style(position, len(pools))
        figures = [cells[verifier, pool] for verifier in known]
        draw_figures(axes, known, figures, shift=shift, label=pool_heading(pool), **style)
    tidy(axes)
    axes.set(xticks=verifiers, xlim=(verifiers[0] - 0.5, verifiers[-1] + 0.5), ylim=SHARES)
    axes.set(xlabel="verifier of round", ylabel="share of sneaky mistakes accepted")
    legend_beside(axes)


def _caption(cells: Cells) -> str:
    counts = {pool: figure.n for (_, pool), figure in sorted(cells.items(), reverse=True)}
    numbers = ", ".join(f"{counts[pool]:,} of {pool_heading(pool)}" for pool in sorted(counts))
    return (
        "Read a column downwards: a verifier that became more robust accepts fewer of the same mistakes. Values in "
        f"brackets and bars are 95 % intervals (bootstrap over problems). Sneaky mistakes: {numbers}."
    )
