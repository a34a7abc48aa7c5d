"""A sweep's results as text."""

from typing import Any

import pandas as pd

from pvg_hf.config import Recipe
from pvg_hf.config.sweep import PLAIN
from pvg_hf.evaluation.intervals import Figure
from pvg_hf.evaluation.seeds import mean_over_seeds, show_figure
from pvg_hf.sweep.cells import Cell
from pvg_hf.sweep.measures import CHANGE, DISTANCE, MEASURES

LEVELS_OF_A_FIT = 3  # two points lie on any line


def summarize(recipe: Recipe, table: pd.DataFrame, fits: pd.DataFrame, breakdowns: pd.DataFrame) -> str:
    """The results as Markdown tables."""
    lines = [
        f"# {recipe.name}",
        "",
        f"Means over {table['seed'].nunique()} seed(s), with 95 % intervals by Student's t over seeds; `change` is from the same "
        "seed's verifier that learned from clean labels by the plain loss.",
        "",
        *_means(recipe.sweep.vary, table),
    ]
    lines += _section(f"Against `{PLAIN}` at the same level", _gain_lines(table)) if _compares(table) else []
    if table["level"].nunique() >= LEVELS_OF_A_FIT:
        lines += _section("Fits", _fit_lines(fits)) if len(fits) else []
        lines += _section("Breakdown", _breakdown_lines(table, breakdowns)) if len(breakdowns) else []
    return "\n".join(lines) + "\n"


def _means(vary: str, table: pd.DataFrame) -> list[str]:
    columns = {}
    for name in (name for name in MEASURES if name in table):
        columns[name] = MEASURES[name].title
        if name != DISTANCE:  # which is a change itself
            columns[f"{name}{CHANGE}"] = "change"
    rows = [["correction", vary, "seeds", *columns.values()]]
    for (correction, level), cells in table.groupby(["correction", "level"], sort=False):
        if Cell(0, level, correction).trained.correction in set(table["correction"]) - {correction}:
            continue  # the same training stands there
        shown = [_show(mean_over_seeds(cells[column])) for column in columns]
        rows.append([correction, f"{level:g}", str(len(cells)), *shown])
    return _markdown(rows)


def _compares(table: pd.DataFrame) -> bool:
    return PLAIN in set(table["correction"]) and table["correction"].nunique() > 1


def _gain_lines(table: pd.DataFrame) -> list[str]:
    """What a correction gains over none, paired by seed."""
    names = [name for name, measure in MEASURES.items() if name in table and measure.is_share]
    rows = [["correction", "level", *(MEASURES[name].title for name in names)]]
    by_place = table.set_index(["correction", "level", "seed"])[names]
    for (correction, level), cells in table[table["level"] > 0].groupby(["correction", "level"], sort=False):
        if correction != PLAIN:
            plain = by_place.reindex([(PLAIN, level, seed) for seed in cells["seed"]])
            gains = [mean_over_seeds(cells[name].to_numpy(float) - plain[name].to_numpy(float)) for name in names]
            rows.append([correction, f"{level:g}", *map(_show, gains)])
    return _markdown(rows)


def _fit_lines(fits: pd.DataFrame) -> list[str]:
    rows = [["measure", "correction", "fit", "of level", "of level squared", "R² within seeds", "n"]]
    for (name, correction, kind), terms in fits.groupby(["measure", "correction", "fit"], sort=False):
        shown = [_show_term(term) for term in terms.itertuples()]
        r_squared = terms["r_squared"].iloc[0]
        fitted = "none" if pd.isna(r_squared) else f"{r_squared:.3f}"
        rows.append(
            [MEASURES[name].title, correction, kind, *shown, *[""] * (2 - len(shown)), fitted, str(terms["n"].iloc[0])]
        )
    return _markdown(rows)


def _show_term(term: Any) -> str:
    bounds = (None, None) if pd.isna(term.low) else (term.low, term.high)
    return _show(Figure(term.coefficient, *bounds, term.n))


def _show(figure: Figure) -> str:
    return show_figure(figure, with_n=False)


def _breakdown_lines(table: pd.DataFrame, breakdowns: pd.DataFrame) -> list[str]:
    rows = [["measure", "correction", "half is lost at", "seeds that get there", "a loss can be told from"]]
    for row in breakdowns.itertuples():
        seeds = f"{row.num_broken} of {row.num_seeds}"
        seeds += "" if pd.isna(row.lowest) else f", at {row.lowest:.3g} to {row.highest:.3g}"
        rows.append([MEASURES[row.measure].title, row.correction, _level(row.level), seeds, _level(row.told_from)])
    without = [measure for name, measure in MEASURES.items() if name in table and measure.floor is None]
    return [*_markdown(rows), "", *(f"- No level of {measure.title}: {measure.why_no_floor}." for measure in without)]


def _level(level: float | None) -> str:
    return "no level" if pd.isna(level) else f"{level:.3g}"


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _markdown(rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])]
