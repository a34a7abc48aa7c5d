"""A sweep's results: cells, deviations from the clean verifier, fits and levels of breakdown."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from pvg_hf.config import Recipe
from pvg_hf.evaluation.seeds import mean_over_seeds
from pvg_hf.game.folder import read_json, write_json, write_text
from pvg_hf.sweep.cells import Cell, SweepFolder, list_cells
from pvg_hf.sweep.fits import DEGREES, Fit, find_breakdown, fit_levels
from pvg_hf.sweep.measures import CHANGE, MEASURES
from pvg_hf.sweep.plots import plot_sweep, save_plot
from pvg_hf.sweep.summary import summarize


def write_results(recipe: Recipe, folder: SweepFolder) -> None:
    """Write `cells.csv`, `fits.csv`, `breakdowns.csv`, `results.json`, `summary.md` and the plots of what is finished."""
    results = _read(recipe, folder)
    table = cell_table(recipe, results)
    if table.empty:
        return
    fits, breakdowns = fit_table(table), breakdown_table(table)
    for name, rows in (("cells", table), ("fits", fits), ("breakdowns", breakdowns)):
        write_text(folder.root / f"{name}.csv", rows.to_csv(index=False))
    raw = {"recipe": recipe.to_dict(), "cells": list(results.values())}
    raw |= {"fits": _plain(fits), "breakdowns": _plain(breakdowns)}
    write_json(folder.root / "results.json", raw)
    write_text(folder.summary, summarize(recipe, table, fits, breakdowns))
    folder.plots.mkdir(exist_ok=True)
    for plot in plot_sweep(recipe.sweep.vary, table):
        save_plot(plot, folder.plots)


def cell_table(recipe: Recipe, results: dict[Cell, dict[str, Any]]) -> pd.DataFrame:
    """
    A row for each seed, level and correction that has a result, and whose clean reference has one.

    Args:
        recipe ([`~pvg_hf.config.Recipe`]):
            The sweep's.
        results (`dict[Cell, dict]`):
            By trained cell. What two corrections share at level 0 stands in a row of each.

    Returns:
        `pd.DataFrame`: `seed`, `level`, `correction`, and for each measure its value, `MEASURE_low` and `MEASURE_high` (over
        problems, where it has an interval) and `MEASURE_change` from the reference.
    """
    sweep = recipe.sweep
    levels = sorted({0.0, *sweep.levels})
    cells = [Cell(seed, level, name) for name in sweep.corrections for level in levels for seed in sorted(sweep.seeds)]
    known = [cell for cell in cells if cell.trained in results and cell.reference in results]
    return pd.DataFrame([_row(cell, results[cell.trained], results[cell.reference]) for cell in known])


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
    """Linear and quadratic fits of every measure for each correction, a row per term."""
    rows = []
    for name, correction, cells in _measured(table):
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
    """Where each measure with a floor has lost half of its distance to it, and from where on a loss can be told."""
    rows = []
    for name, correction, cells in _measured(table):
        if MEASURES[name].floor is None:
            continue
        of_seeds = cells.groupby("seed").first()
        by_seed, sign = cells.pivot(index="level", columns="seed", values=name), MEASURES[name].sign
        found = find_breakdown(sign * by_seed, sign * of_seeds[f"{name}_clean"], sign * of_seeds[f"{name}_floor"])
        if found is not None:
            told = {"told_from": first_told_loss(cells, name)}
            rows.append({"measure": name, "correction": correction, **asdict(found), **told})
    return pd.DataFrame(rows)


def first_told_loss(cells: pd.DataFrame, name: str) -> float | None:
    """The lowest level at which the interval of the seeds' mean change is for the worse; `None` if it never is."""
    for level, rows in cells.groupby("level"):
        change = mean_over_seeds(MEASURES[name].sign * rows[f"{name}{CHANGE}"])
        if change.high is not None and change.high < 0:
            return float(level)
    return None


def _measured(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Each measure and correction with the rows that have a value."""
    for name in (name for name in MEASURES if name in table):
        for correction, cells in table.groupby("correction", sort=False):
            yield name, correction, cells[cells[name].notna()]


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON, which has no NaN."""
    return table.astype(object).where(table.notna(), None).to_dict("records")


def _read(recipe: Recipe, folder: SweepFolder) -> dict[Cell, dict[str, Any]]:
    files = {cell: folder.result(cell) for cell in list_cells(recipe)}
    advice = "Delete it and run the sweep again: the cell is measured anew."
    return {cell: read_json(file, remedy=advice) for cell, file in files.items() if file.exists()}
