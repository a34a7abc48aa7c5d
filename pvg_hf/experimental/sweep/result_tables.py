"""Writes a sweep's results as tables and text: cells, changes from the clean verifier, fits and breakdown levels."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from pvg_hf.config import Recipe
from pvg_hf.config.sections import PLAIN
from pvg_hf.core.commands import delete_command
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json, write_text
from pvg_hf.core.integrity import read_mapping
from pvg_hf.core.markdown import markdown_table
from pvg_hf.core.spreadsheets import to_csv
from pvg_hf.experimental.sweep.cells import Cell, CellResult, clean_cell, list_cells
from pvg_hf.experimental.sweep.fits import DEGREES, Fit, find_breakdown, fit_levels
from pvg_hf.experimental.sweep.level_plots import plot_sweep, save_plot
from pvg_hf.experimental.sweep.measures import CHANGE, DISTANCE, MEASURES
from pvg_hf.experimental.sweep.seeds import mean_over_seeds, show_figure
from pvg_hf.run.jobs import JobFolder

RESULTS_FILE = "results.json"

LEVELS_OF_A_FIT = 3  # minimum number of levels: a line fits any two points


def summarize(recipe: Recipe, table: pd.DataFrame, fits: pd.DataFrame, breakdowns: pd.DataFrame) -> str:
    """Format the results as Markdown tables."""
    lines = [
        f"# {recipe.name}",
        "",
        (
            f"Means over {table['seed'].nunique()} seed(s), with 95 % intervals by Student's t over seeds; `change` is"
            " from the same seed's verifier that learned from clean labels by the plain loss."
        ),
        "",
        _mean_table(recipe.sweep.vary, table),
    ]
    lines += _section(f"Against `{PLAIN}` at the same level", _gain_table(table)) if _has_corrections(table) else []
    if table["level"].nunique() >= LEVELS_OF_A_FIT:
        lines += _section("Fits", _term_table(fits)) if len(fits) else []
        lines += _section("Breakdown", _describe_breakdowns(table, breakdowns)) if len(breakdowns) else []
    return "\n".join(lines) + "\n"


def _mean_table(vary: str, table: pd.DataFrame) -> str:
    columns = {}
    for name in (name for name in MEASURES if name in table):
        columns[name] = MEASURES[name].title
        if name != DISTANCE:  # the distance is already relative to the clean reference
            columns[f"{name}{CHANGE}"] = "change"
    rows = [["correction", vary, "seeds", *columns.values()]]
    for (correction, level), cells in table.groupby(["correction", "level"], sort=False):
        if Cell(0, level, correction).trained.correction in set(table["correction"]) - {correction}:
            continue  # another correction's row shows the same training
        shown = [_show(mean_over_seeds(cells[column])) for column in columns]
        rows.append([correction, f"{level:g}", str(len(cells)), *shown])
    return markdown_table(rows)


def _has_corrections(table: pd.DataFrame) -> bool:
    return PLAIN in set(table["correction"]) and table["correction"].nunique() > 1


def _gain_table(table: pd.DataFrame) -> str:
    """Gain of each correction over the uncorrected loss, paired by seed."""
    names = [name for name, measure in MEASURES.items() if name in table and measure.is_share]
    rows = [["correction", "level", *(MEASURES[name].title for name in names)]]
    by_place = table.set_index(["correction", "level", "seed"])[names]
    for (correction, level), cells in table[table["level"] > 0].groupby(["correction", "level"], sort=False):
        if correction != PLAIN:
            plain = by_place.reindex([(PLAIN, level, seed) for seed in cells["seed"]])
            gains = [mean_over_seeds(cells[name].to_numpy(float) - plain[name].to_numpy(float)) for name in names]
            rows.append([correction, f"{level:g}", *map(_show, gains)])
    return markdown_table(rows)


def _term_table(fits: pd.DataFrame) -> str:
    rows = [["measure", "correction", "fit", "of level", "of level squared", "R² within seeds", "n"]]
    for (name, correction, kind), terms in fits.groupby(["measure", "correction", "fit"], sort=False):
        shown = [_show_term(term) for term in terms.itertuples()]
        r_squared = terms["r_squared"].iloc[0]
        fitted = "none" if pd.isna(r_squared) else f"{r_squared:.3f}"
        rows.append(
            [MEASURES[name].title, correction, kind, *shown, *[""] * (2 - len(shown)), fitted, str(terms["n"].iloc[0])]
        )
    return markdown_table(rows)


def _show_term(term: Any) -> str:
    bounds = (None, None) if pd.isna(term.low) else (term.low, term.high)
    return _show(Figure(term.coefficient, *bounds, term.n))


def _show(figure: Figure) -> str:
    return show_figure(figure, with_n=False)


def _describe_breakdowns(table: pd.DataFrame, breakdowns: pd.DataFrame) -> str:
    rows = [["measure", "correction", "half is lost at", "seeds that lose half", "first level with a clear loss"]]
    for row in breakdowns.itertuples():
        seeds = f"{row.num_broken} of {row.num_seeds}"
        seeds += "" if pd.isna(row.lowest) else f", at {row.lowest:.3g} to {row.highest:.3g}"
        rows.append([MEASURES[row.measure].title, row.correction, _level(row.level), seeds, _level(row.told_from)])
    without = [measure for name, measure in MEASURES.items() if name in table and measure.floor is None]
    notes = (f"- No level of {measure.title}: {measure.why_no_floor}." for measure in without)
    return "\n".join([markdown_table(rows), "", *notes])


def _level(level: float | None) -> str:
    return "no level" if pd.isna(level) else f"{level:.3g}"


def _section(title: str, text: str) -> list[str]:
    return ["", f"## {title}", "", text]


def write_results(recipe: Recipe, folder: JobFolder) -> None:
    """
    Write `cells.csv`, `fits.csv`, `breakdowns.csv`, `results.json`, `summary.md` and the plots of the finished cells.
    """
    results = _read(recipe, folder)
    table = cell_table(recipe, results)
    if table.empty:
        return
    fits, breakdowns = fit_table(table), breakdown_table(table)
    for name, rows in (("cells", table), ("fits", fits), ("breakdowns", breakdowns)):
        write_text(folder.root / f"{name}.csv", to_csv(rows))
    raw = {"recipe": recipe.to_dict(), "cells": list(results.values())}
    raw |= {"fits": _plain(fits), "breakdowns": _plain(breakdowns)}
    write_json(folder.root / RESULTS_FILE, raw)
    write_text(folder.summary, summarize(recipe, table, fits, breakdowns))
    folder.plots.mkdir(exist_ok=True)
    for plot in plot_sweep(recipe.sweep.vary, table):
        save_plot(plot, folder.plots)


def cell_table(recipe: Recipe, results: dict[Cell, dict[str, Any]]) -> pd.DataFrame:
    """
    Table with one row per seed, level and correction, as far as the cell and its clean reference have results.

    Args:
        results: Results by trained cell. A training that several corrections share at level 0 appears in a row of
            each.
    Returns: `seed`, `level`, `correction`, and for each measure its value, `MEASURE_low` and `MEASURE_high` (interval
        over problems, if any) and `MEASURE_change` from the reference.
    """
    sweep = recipe.sweep
    levels = sorted({0.0, *sweep.levels})
    cells = [Cell(seed, level, name) for name in sweep.corrections for level in levels for seed in sorted(sweep.seeds)]
    known = [cell for cell in cells if cell.trained in results and clean_cell(cell.seed) in results]
    return pd.DataFrame([_row(cell, results[cell.trained], results[clean_cell(cell.seed)]) for cell in known])


def _row(cell: Cell, result: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"seed": cell.seed, "level": cell.level, "correction": cell.correction}
    clean = reference["figures"]
    for name, figure in result["figures"].items():
        row |= {name: figure["value"], f"{name}_low": figure["low"], f"{name}_high": figure["high"]}
        if None not in (figure["value"], clean[name]["value"]):
            row[f"{name}{CHANGE}"] = figure["value"] - clean[name]["value"]
    for name, measure in MEASURES.items():
        if name in clean and measure.floor is not None:
            floor = measure.floor
            row[f"{name}_clean"] = clean[name]["value"]
            row[f"{name}_floor"] = clean[floor]["value"] if isinstance(floor, str) else floor
    return row


def fit_table(table: pd.DataFrame) -> pd.DataFrame:
    """Linear and quadratic fits of every measure for each correction, with one row per term."""
    rows = []
    for name, correction, cells in _iterate_measured(table):
        for kind, degree in DEGREES.items():
            fit = fit_levels(cells["level"], cells[name], cells["seed"], degree)
            rows += [] if fit is None else _fit_rows({"measure": name, "correction": correction, "fit": kind}, fit)
    return pd.DataFrame(rows)


def _fit_rows(place: dict[str, Any], fit: Fit) -> list[dict[str, Any]]:
    return [
        {**place, "power": power, "coefficient": term.value, "low": term.low, "high": term.high}
        | {"constant": fit.constant, "r_squared": fit.r_squared, "n": fit.n}
        for power, term in enumerate(fit.terms, start=1)
    ]


def breakdown_table(table: pd.DataFrame) -> pd.DataFrame:
    """Breakdown level of each measure with a floor, and the lowest level with a clear loss, for each correction."""
    rows = []
    for name, correction, cells in _iterate_measured(table):
        if MEASURES[name].floor is None:
            continue
        of_seeds = cells.groupby("seed").first()
        by_seed, sign = cells.pivot(index="level", columns="seed", values=name), MEASURES[name].sign
        found = find_breakdown(sign * by_seed, sign * of_seeds[f"{name}_clean"], sign * of_seeds[f"{name}_floor"])
        if found is not None:
            columns = {"told_from": first_detectable_loss(cells, name)}
            rows.append({"measure": name, "correction": correction, **asdict(found), **columns})
    return pd.DataFrame(rows)


def first_detectable_loss(cells: pd.DataFrame, name: str) -> float | None:
    """Lowest level at which the interval of the mean change over seeds is entirely a loss; `None` if there is none."""
    for level, rows in cells.groupby("level"):
        change = mean_over_seeds(MEASURES[name].sign * rows[f"{name}{CHANGE}"])
        if change.high is not None and change.high < 0:
            return float(level)
    return None


def _iterate_measured(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Iterate over measures and corrections, with the rows that have a value."""
    for name in (name for name in MEASURES if name in table):
        for correction, cells in table.groupby("correction", sort=False):
            yield name, correction, cells[cells[name].notna()]


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    # JSON has no NaN: missing values become null.
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _read(recipe: Recipe, folder: JobFolder) -> dict[Cell, dict[str, Any]]:
    files = {cell: folder.result(cell.name) for cell in list_cells(recipe)}
    advice = "Delete it by `{}` and run the sweep again: the cell is then measured again."
    return {
        cell: read_mapping(file, CellResult, remedy=advice.format(delete_command(file)))
        for cell, file in files.items()
        if file.exists()
    }
