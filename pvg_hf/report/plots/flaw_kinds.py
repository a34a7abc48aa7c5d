"""Kinds of first mistakes, per role and round."""

import pandas as pd
from matplotlib.axes import Axes

from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.evaluation.role_figures import flaw_table, has_flaws
from pvg_hf.report.plots.style import SHARES, Plot, legend_below, new_canvas, round_style, tidy
from pvg_hf.run.read import RunData

TERMS = {"first flaw": "the kind of the first step that the task's own checker finds wrong."}


def plot_flaws(run: RunData) -> Plot | None:
    """Share of each kind among a role's flawed solutions; `None` if the task has no flaw checker."""
    known = [data for data in run.rounds if data.solutions is not None and has_flaws(data.solutions)]
    tables = {data.round_index: flaw_table(data.solutions) for data in known}
    kinds = list(dict.fromkeys(kind for table in tables.values() for kind in table["kind"]))
    if not kinds:
        return None
    canvas = new_canvas(8.6, 1.6 + 0.45 * len(kinds))
    panels = canvas.subplots(1, 2, sharey=True, sharex=True)
    for axes, role in zip(panels, GAME_ROLES):
        for position, (index, table) in enumerate(tables.items()):
            _draw_round(axes, table[table["role"] == role.value], kinds, position, len(tables), index)
        _finish(axes, role, kinds)
    legend_below(canvas, num_columns=6)
    return Plot("flaws", "Which mistakes are made", _caption(tables), canvas, TERMS)


def _draw_round(axes: Axes, table: pd.DataFrame, kinds: list[str], position: int, num_rounds: int, index: int) -> None:
    table = table[table["share"].notna()]
    style = {**round_style(position, num_rounds), "linestyle": "none"}
    places = [kinds.index(kind) + 0.5 * ((position + 0.5) / num_rounds - 0.5) for kind in table["kind"]]
    errors = [table["share"] - table["low"], table["high"] - table["share"]]
    axes.errorbar(
        table["share"], places, xerr=errors, capsize=2, markersize=5, elinewidth=1.2, label=f"round {index}", **style
    )


def _finish(axes: Axes, role: Role, kinds: list[str]) -> None:
    tidy(axes)
    axes.set_title(str(role), fontsize=11)
    axes.set_yticks(range(len(kinds)), [kind.replace("_", " ") for kind in kinds])
    # The limits of shares are fixed, because the panels share them and either may have the larger ones.
    axes.set(xlabel="share of the role's flawed solutions", xlim=SHARES, ylim=(len(kinds) - 0.5, -0.5))


def _caption(tables: dict[int, pd.DataFrame]) -> str:
    counts = []
    for index, table in tables.items():
        totals = table.drop_duplicates("role").set_index("role")["n"]
        counts.append(f"round {index}: " + ", ".join(f"{total} {role}" for role, total in totals.items()))
    return f"Kinds of the first flaw with 95 % intervals. Flawed test solutions: {'; '.join(counts)}."
