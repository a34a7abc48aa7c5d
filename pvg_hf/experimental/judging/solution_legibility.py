"""
Legibility without people: step validity, implicitness, readability and length of solutions, and how well a weaker
judge tells correct from incorrect ones.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import (
    Statistic,
    bootstrap_statistic,
    difference,
    mean_by_problem,
    rate_by_problem,
    rate_difference,
    share_by_problem,
)
from pvg_hf.evaluation.roc import RocCurves, area
from pvg_hf.evaluation.role_figures import has_failed, has_flaws
from pvg_hf.evaluation.verifier_quality import judge_crossfitted, pair_accuracy, roc_auc
from pvg_hf.experimental.judging.text_features import readability_index

CELLS = {
    "helpful_correct": (Role.HELPFUL, True),
    "helpful_incorrect": (Role.HELPFUL, False),
    "sneaky_incorrect": (Role.SNEAKY, False),
}
"""Solutions that are described: their role and whether they are correct."""

PAIRINGS = {"helpful": Role.HELPFUL, "game": Role.SNEAKY}
"""Solutions that a judge tells apart: helpful correct ones from incorrect ones of this role."""

SHARES = ("step_validity", "implicit_share")
MEANS = ("num_tokens", "num_lines", "words_per_line", "readability")


def legibility_figures(
    rows: pd.DataFrame, base_rows: pd.DataFrame, *, seed: int, num_resamples: int
) -> dict[str, Figure]:
    """
    Compute legibility figures of a round's solutions, of the base prover's, and the change.

    Solutions that failed (truncated, without an answer, uncertified) are left out.

    Args:
        rows: Test solutions of the round's prover in both roles: `problem_id`, `role`, `solution`, `correct`,
            `outcome`, `num_tokens`, and as far as the task has them `num_steps`, `num_flaws`, `first_flaw_kind` and
            `implicit_share`. If there is a weaker judge, also `judge_score` and `is_cut` (whether the judge did not
            read the end).
        base_rows: The same of the base prover, in the same roles and to the same problems.
        seed, num_resamples: Settings of the bootstraps over problems.

    Returns:
        `dict[str, Figure]`: keys end with a cell of `CELLS` or a pairing of `PAIRINGS`; those that begin with `base/`
        are the base prover's, and those with `change/` the round's less the base's, on the same problems.

        - `step_validity/CELL`: mean share of a solution's steps that the task's checker confirms;
        - `all_valid/CELL`: share of the solutions whose least valid step is valid, i.e. the minimum over the steps;
        - `implicit_share/CELL`: share of the steps' content that is left to the reader;
        - `num_tokens/CELL`, `num_lines/CELL`, `words_per_line/CELL`, `readability/CELL` (see
          [`~pvg_hf.experimental.judging.text_features.readability_index`]);
        - `judge_single/PAIRING`: balanced accuracy of the judge on single solutions, at a threshold from the other
          half of the problems; `judge_pair/PAIRING`: share of pairs of one problem that it orders rightly;
          `judge_auc/PAIRING`; `judge_cut/CELL`: share of the solutions that it did not read to the end.
    """
    draws = {"seed": seed, "num_resamples": num_resamples}
    ours, base = (_described(table) for table in (rows, base_rows))
    figures = {**_side_figures(ours, **draws)}
    figures |= {f"base/{name}": figure for name, figure in _side_figures(base, **draws).items()}
    return figures | {f"change/{name}": figure for name, figure in _changes(ours, base, **draws).items()}


def _described(rows: pd.DataFrame) -> pd.DataFrame:
    """Solutions that did not fail, with the columns of `SHARES` and `MEANS` as far as they are known."""
    rows = rows[~has_failed(rows)].reset_index(drop=True)
    texts = rows["solution"]
    lines = texts.map(lambda text: max(1, len([line for line in text.splitlines() if line.strip()])))
    columns = {
        "num_lines": lines.astype(float),
        "words_per_line": texts.map(lambda text: len(text.split())) / lines,
        "readability": texts.map(readability_index).astype(float),
    }
    if has_flaws(rows):
        columns["step_validity"] = (1 - rows["num_flaws"] / rows["num_steps"]).clip(lower=0)
    return rows.assign(**columns)


def _cells(rows: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    correct = rows["correct"].astype(bool)
    return {
        name: rows[(rows["role"] == role.value) & (correct == is_correct)]
        for name, (role, is_correct) in CELLS.items()
    }


def _pairing(rows: pd.DataFrame, role: Role) -> pd.DataFrame:
    """Helpful correct solutions and incorrect ones of a role, with the judge's `score`."""
    correct = rows["correct"].astype(bool)
    chosen = ((rows["role"] == Role.HELPFUL.value) & correct) | ((rows["role"] == role.value) & ~correct)
    return rows[chosen].assign(score=rows["judge_score"])


def _side_figures(rows: pd.DataFrame, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    figures = {}
    for cell, members in _cells(rows).items():
        if "step_validity" in rows:
            figures[f"all_valid/{cell}"] = rate_by_problem(members["num_flaws"] == 0, members["problem_id"])
        for name in SHARES:
            if name in rows:
                known = members[members[name].notna()]
                figures[f"{name}/{cell}"] = share_by_problem(known[name], known["problem_id"])
        for name in MEANS:
            known = members[members[name].notna()]
            figures[f"{name}/{cell}"] = mean_by_problem(
                known[name], known["problem_id"], seed=derive_seed(seed, name), num_resamples=num_resamples
            )
        if "is_cut" in rows:
            figures[f"judge_cut/{cell}"] = rate_by_problem(members["is_cut"], members["problem_id"])
    if "judge_score" in rows:
        for name, role in PAIRINGS.items():
            figures |= _judge_figures(_pairing(rows, role), name, seed=seed)
    return figures


def _judge_figures(rows: pd.DataFrame, pairing: str, *, seed: int) -> dict[str, Figure]:
    # A judge whose scores allow no threshold accepts everything.
    accepted = judge_crossfitted(rows, seed=derive_seed(seed, "judge")).fillna(True)
    correct = rows["correct"].astype(bool)
    sides = [(accepted[side].astype(float), rows["problem_id"][side]) for side in (correct, ~correct)]
    youden_j = rate_difference(*sides[0], *sides[1])
    return {
        f"judge_single/{pairing}": balanced_accuracy(youden_j),
        f"judge_pair/{pairing}": pair_accuracy(rows),
        f"judge_auc/{pairing}": roc_auc(rows),
    }


def balanced_accuracy(youden_j: Figure) -> Figure:
    """Return (TPR + TNR) / 2, which is (1 + J) / 2."""
    values = (youden_j.value, youden_j.low, youden_j.high)
    return Figure(*(None if value is None else (1 + value) / 2 for value in values), youden_j.n)


def _changes(ours: pd.DataFrame, base: pd.DataFrame, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    figures = {}
    base_cells = _cells(base)
    for cell, members in _cells(ours).items():
        for name in (*SHARES, *MEANS):
            if name not in ours:
                continue
            sides = [side[side[name].notna()] for side in (members, base_cells[cell])]
            figures[f"{name}/{cell}"] = difference(
                *(value for side in sides for value in (side[name], side["problem_id"])),
                seed=derive_seed(seed, "change", name),
                num_resamples=num_resamples,
            )
    if "judge_score" in ours:
        for name, role in PAIRINGS.items():
            figures[f"judge_auc/{name}"] = _auc_change(
                _pairing(ours, role), _pairing(base, role), seed=derive_seed(seed, "auc"), num_resamples=num_resamples
            )
    return figures


def _auc_change(ours: pd.DataFrame, base: pd.DataFrame, *, seed: int, num_resamples: int) -> Figure:
    """Difference of the judge's AUC on two sets of solutions, on the same resamples of the problems."""
    both = pd.concat([ours, base], ignore_index=True)
    is_ours = np.arange(len(both)) < len(ours)
    sides = [_auc_of(both, side) for side in (is_ours, ~is_ours)]
    figure = bootstrap_statistic(
        lambda weights: sides[0](weights) - sides[1](weights),
        both["problem_id"].to_numpy(),
        seed=seed,
        num_resamples=num_resamples,
    )
    return Figure(figure.value, figure.low, figure.high, both["problem_id"].nunique())


def _auc_of(rows: pd.DataFrame, chosen: np.ndarray) -> Statistic:
    scores, correct = rows.loc[chosen, "score"].to_numpy(float), rows.loc[chosen, "correct"].to_numpy(bool)
    if not correct.any() or correct.all():
        return lambda weights: np.full(len(weights), np.nan)
    curves = RocCurves(scores, correct)
    return lambda weights: area(curves(weights[:, chosen]))
