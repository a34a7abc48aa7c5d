"""Plots of a run as tables of points, which Gradio draws in the page's theme: each point shows its values."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
import numpy as np
import pandas as pd
from markupsafe import Markup

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.evaluation.roc import RocCurves
from pvg_hf.evaluation.role_figures import flaw_table, has_flaws, scored_rows
from pvg_hf.evaluation.verifiers_by_pools import OWN_ACCEPTED
from pvg_hf.report.plots.best_of_n_curves import PREFIX, sizes
from pvg_hf.report.tables import pool_cells, pool_heading
from pvg_hf.run.read import RoundData, RunData

# Of Okabe and Ito, as in the report: told apart without colour vision, and readable on a light and on a dark page.
COLOURS = ("#2a86c8", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999")
NUM_BINS = 24
MAX_ROC_POINTS = 60

Row = dict[str, Any]


@dataclass(frozen=True)
class Plot:
    """A plot: `rows` computes its points, with the columns `x`, `y`, `series` and further ones for their labels."""

    name: str
    title: str
    note: str
    axes: tuple[str, str]
    rows: Callable[[RunData], Iterable[Row]]
    kind: type = gr.LinePlot
    is_share: bool = True  # whether y is in [0, 1]

    def frame(self, run: RunData) -> pd.DataFrame:
        """Return the points whose `y` is known, with the axes' names as columns."""
        rows = [row for row in self.rows(run) if row["y"] is not None and not pd.isna(row["y"])]
        frame = pd.DataFrame(rows, columns=None if rows else ["x", "y", "series"])
        return frame.rename(columns=dict(zip(("x", "y"), self.axes)))


def _figure_row(x: Any, series: str, figure: Figure) -> Row:
    interval = "" if figure.low is None else f"[{figure.low:.3f}, {figure.bounds[1]:.3f}]"
    return {"x": x, "y": figure.value, "series": series, "interval": interval, "n": figure.n}


def _by_round(*names: str) -> Callable[[RunData], Iterator[Row]]:
    def rows(run: RunData) -> Iterator[Row]:
        for data in run.evaluated:
            yield from (_figure_row(f"round {data.round_index}", _words(name), data.figure(name)) for name in names)

    return rows


def _words(name: str) -> str:
    return heading_of(name.format(round="round-000") if "{" in name else name)


def _accuracy(run: RunData) -> Iterator[Row]:
    for data in run.evaluated[:1]:
        for role in GAME_ROLES:
            yield _figure_row("base prover", heading_of(f"accuracy/{role}"), data.figure(f"base_accuracy/{role}"))
    yield from _by_round(*(f"accuracy/{role}" for role in GAME_ROLES))(run)


def _of_steps(columns: Mapping[str, str]) -> Callable[[RunData], Iterator[Row]]:
    """Points of the provers' training, by the column of the metrics and its words."""

    def rows(run: RunData) -> Iterator[Row]:
        for data in run.rounds:
            for column, words in columns.items():
                if column in data.steps:
                    for step, value in zip(data.steps["step"], data.steps[column]):
                        yield {"x": int(step), "y": value, "series": f"{words}, round {data.round_index}"}

    return rows


def _best_of_n(run: RunData) -> Iterator[Row]:
    for data in run.evaluated:
        yield from (_figure_row(str(n), f"round {data.round_index}", data.figure(f"{PREFIX}{n}")) for n in sizes(data))


def _scores(run: RunData) -> Iterator[Row]:
    """Share of the last round's solutions in each bin of scores, within a role and correctness."""
    for data in _last_with_solutions(run):
        rows = scored_rows(data.solutions)
        edges = np.histogram_bin_edges(rows["score"].to_numpy(float), NUM_BINS)
        for (role, correct), some in rows.groupby(["role", "correct"]):
            shares = np.histogram(some["score"].to_numpy(float), edges)[0] / len(some)
            series = f"{role}, {'correct' if correct else 'incorrect'}"
            for place, share in zip((edges[:-1] + edges[1:]) / 2, shares):
                yield {"x": float(place), "y": float(share), "series": series, "n": len(some)}


def _last_with_solutions(run: RunData) -> list[RoundData]:
    found = [data for data in run.rounds if data.solutions is not None and len(scored_rows(data.solutions))]
    return found[-1:]


def _flaws(run: RunData) -> Iterator[Row]:
    for data in _last_with_solutions(run):
        if has_flaws(data.solutions):
            for row in flaw_table(data.solutions).itertuples():
                if row.role == Role.SNEAKY.value:
                    yield {"x": row.kind.replace("_", " "), "y": row.share, "series": f"round {data.round_index}"}


def _times(run: RunData) -> Iterator[Row]:
    splits, total = run.phase_splits(), Counter[tuple[str, str]]()
    for key, seconds in run.phase_seconds().items():
        total.update(
            {(key[1], kind): spent.seconds for kind, spent in splits.get(key, {}).items()}
            or {(key[1], "all"): seconds}
        )
    return ({"x": phase, "y": seconds, "series": kind} for (phase, kind), seconds in total.items())


def _pools(run: RunData) -> Iterator[Row]:
    for (verifier, pool), figure in sorted(pool_cells(run, "accepted").items()):
        yield _figure_row(f"verifier {verifier}", pool_heading(pool), figure)


def _roc(run: RunData) -> Iterator[Row]:
    """Curves of each verifier on its own prover's solutions, thinned out."""
    for data in run.evaluated:
        if data.solutions is None:
            continue
        rows = scored_rows(data.solutions)
        correct = rows["correct"].to_numpy(bool)
        if not len(rows) or correct.all() or not correct.any():
            continue
        fprs, tprs = (curve[0] for curve in RocCurves(rows["score"].to_numpy(float), correct)(np.ones((1, len(rows)))))
        places = np.unique(np.linspace(0, len(fprs) - 1, MAX_ROC_POINTS).astype(int))
        yield from (
            {"x": float(fprs[k]), "y": float(tprs[k]), "series": f"verifier {data.round_index}"} for k in places
        )


_SCORED_CELLS = {
    "score/helpful_correct": "helpful",
    "score/sneaky_incorrect": "sneaky",
}

ROUND_PLOTS = (
    Plot(
        "accuracy",
        "Accuracy on test problems",
        "The base prover is that before the game, prompted for the same roles.",
        ("round", "share"),
        _accuracy,
        gr.ScatterPlot,
    ),
    Plot(
        "verifier",
        "The verifier against its own prover",
        "Accepted: mistakes of the newest prover, where 95 % of its correct helpful solutions are accepted.",
        ("round", "share"),
        _by_round(OWN_ACCEPTED, "test_pair_accuracy", "verifier_pair_accuracy"),
        gr.ScatterPlot,  # a line of one round would be empty
    ),
    Plot(
        "training",
        "Accuracy while the provers are trained",
        "Share of a step's solutions that are correct, on training problems.",
        ("step", "share"),
        _of_steps({f"accuracy/{role}": role.value for role in GAME_ROLES}),
    ),
    Plot(
        "training-scores",
        "Scores while the provers are trained",
        "Mean score of a step's correct helpful and incorrect sneaky solutions, in the units of the round's verifier.",
        ("step", "score"),
        _of_steps(_SCORED_CELLS),
        is_share=False,
    ),
    Plot(
        "best-of-n",
        "Can the verifier be trusted to choose?",
        "Expected share of correct choices from n solutions, half of them correct; by chance 0.5.",
        ("number of solutions", "share"),
        _best_of_n,
        gr.ScatterPlot,
    ),
    Plot(
        "scores",
        "Scores of the last round's test solutions",
        "Each role and correctness adds up to 1.",
        ("score", "share"),
        _scores,
        is_share=False,
    ),
    Plot(
        "flaws",
        "First flaws of the last round's sneaky solutions",
        "Share of each kind among the flawed ones.",
        ("kind", "share"),
        _flaws,
        gr.BarPlot,
        is_share=False,
    ),
    Plot(
        "time",
        "Where the time went",
        "Seconds of the finished phases of all rounds.",
        ("phase", "seconds"),
        _times,
        gr.BarPlot,
        is_share=False,
    ),
)
"""Plots of the page "Rounds"."""

VERIFIER_PLOTS = (
    Plot(
        "pools",
        "Does a later verifier accept fewer of the same mistakes?",
        "A colour is one prover's mistakes; accepted where 95 % of that prover's correct helpful solutions are.",
        ("verifier", "accepted"),
        _pools,
        gr.ScatterPlot,
    ),
    Plot(
        "roc",
        "ROC curves on the verifiers' own provers",
        "Shares of correct and of incorrect test solutions accepted, for every threshold.",
        ("false positive rate", "true positive rate"),
        _roc,
    ),
)
"""Plots of the page "Verifiers"."""


def build_plots(plots: Iterable[Plot]) -> list[gr.blocks.Block]:
    """Build the components of plots, two beside each other where there is space; [`update_plots`] fills them."""
    components: list[gr.blocks.Block] = []
    with gr.Row(elem_classes="plots"):
        for plot in plots:
            with gr.Column(min_width=320, visible=False) as column:
                gr.HTML(Markup("<h2>{}</h2><p class='soft'>{}</p>").format(plot.title, plot.note))
                legend = gr.HTML()
                drawn = plot.kind(
                    x=plot.axes[0],
                    y=plot.axes[1],
                    color="series",
                    color_title="",
                    colors_in_legend=[],  # its own legend has one line and is cut on a phone
                    tooltip="all",
                    height=280,
                    x_label_angle=30 if plot.kind is gr.BarPlot else 0,
                    show_label=False,
                    y_lim=[0, 1] if plot.is_share else None,
                    elem_id=f"plot-{plot.name}",
                    buttons=["export"],
                )
            components += [column, legend, drawn]
    return components


def update_plots(plots: Iterable[Plot], run: RunData) -> list[Any]:
    """Return the values of the components of plots; those without a point are hidden."""
    values: list[Any] = []
    for plot in plots:
        frame = plot.frame(run)
        names = list(dict.fromkeys(frame["series"]))
        colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
        values += [gr.Column(visible=bool(len(frame))), _legend(colours), plot.kind(value=frame, color_map=colours)]
    return values


def _legend(colours: Mapping[str, str]) -> str:
    entry = Markup('<li><span style="background: {}"></span>{}</li>')
    names = Markup("").join(entry.format(colour, name) for name, colour in colours.items())
    return Markup('<ul class="legend">{}</ul>').format(names)
