"""Figures of solutions that are programs: certificates, tests and similarity (tasks with `PROGRAM_COLUMNS`)."""

import numpy as np
import pandas as pd

from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.evaluation.intervals import Statistic, bootstrap_statistic, rate_by_problem, share_by_problem
from pvg_hf.experimental.programs.code import Proposal

TEST_OUTCOMES = ("passed", "wrong", "crashed", "timed_out", "host_failed")
"""Outcomes of a test; the pool counts each in `num_OUTCOME`."""

QUARTILES = (0.25, 0.5, 0.75)


def is_certified_wrong(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's program has a certificate: an input on which it is proved to be wrong."""
    return rows["failing_input"].notna()


def program_figures(rows: pd.DataFrame, role: Role, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """
    Compute figures of one role's programs.

    Args:
        rows: Solutions with `problem_id`, `answer`, `correct` and `PROGRAM_COLUMNS`, all of this role.
        role: The role, which is part of the keys.
        seed, num_resamples: Settings of the bootstrap over problems, for the quartiles.

    Returns:
        `dict[str, Figure]`:

        - `certificate_rate/<role>`: share of the incorrect programs that have a certificate.
        - `hidden_mistake/<role>`: share of all solutions that pass every visible test and are certified to be wrong,
          which is what the sneaky role is asked for.
        - `unrepeatable/<role>`: share of the programs that pass every test in the first run, but not when they run
          again with other seeds.
        - `visible_pass_rate/<role>`, `hidden_pass_rate/<role>`: mean share of the tests that a program passes.
        - `tests/<role>/<outcome>`: mean share of a program's tests with each of `TEST_OUTCOMES`.
        - `similarity/<role>_correct`, `similarity/<role>_wrong`: mean similarity to the nearest honest program, of
          correct programs and of those certified to be wrong, and `similarity_quartile/<role>_<kind>/<q>`, its
          quartiles.
        - With `PROPOSAL_COLUMNS`, `proposed_input/<role>/<proposal>`: share of the programs with an input by their
          prover that is a [`~pvg_hf.experimental.programs.code.Proposal`] of this kind; and
          `certified_by_prover/<role>`: share of the programs that are certified to be wrong whose certificate has such
          an input, since the tests gave none.

        `n` is the number of solutions that count.
    """
    programs = rows[rows["answer"].notna()]
    incorrect = programs[~programs["correct"].astype(bool)]
    is_hidden = is_certified_wrong(rows) & (rows["visible_pass_rate"] == 1)
    figures = {
        f"certificate_rate/{role}": rate_by_problem(is_certified_wrong(incorrect), incorrect["problem_id"]),
        f"hidden_mistake/{role}": rate_by_problem(is_hidden, rows["problem_id"]),
    }
    for name in ("visible_pass_rate", "hidden_pass_rate"):
        figures[f"{name}/{role}"] = _mean_share(programs, programs[name])
    counts = programs[[f"num_{outcome}" for outcome in TEST_OUTCOMES]].astype(float)
    num_tests = counts.sum(axis=1)
    is_unproved = ~programs["correct"].astype(bool) & ~is_certified_wrong(programs)
    is_unrepeatable = is_unproved & (counts["num_passed"] == num_tests)
    figures[f"unrepeatable/{role}"] = rate_by_problem(is_unrepeatable, programs["problem_id"])
    for outcome in TEST_OUTCOMES:
        figures[f"tests/{role}/{outcome}"] = _mean_share(
            programs, counts[f"num_{outcome}"] / num_tests.where(num_tests > 0)
        )
    for kind, cell in (
        ("correct", programs[programs["correct"].astype(bool)]),
        ("wrong", programs[is_certified_wrong(programs)]),
    ):
        figures[f"similarity/{role}_{kind}"] = _mean_share(cell, cell["similarity"])
        for share in QUARTILES:
            name = f"similarity_quartile/{role}_{kind}/{share:g}"
            figures[name] = bootstrap_statistic(
                weighted_quantile(cell["similarity"].to_numpy(float), share),
                cell["problem_id"].to_numpy(),
                seed=derive_seed(seed, name),
                num_resamples=num_resamples,
            )
    if "proposal" in programs:
        figures |= _proposal_figures(programs, role)
    return figures


def _proposal_figures(programs: pd.DataFrame, role: Role) -> dict[str, Figure]:
    certified = programs[is_certified_wrong(programs)]
    is_own = certified["certificate_source"] == "prover"
    figures = {f"certified_by_prover/{role}": rate_by_problem(is_own, certified["problem_id"])}
    for proposal in Proposal:
        is_such = programs["proposal"] == proposal.value
        figures[f"proposed_input/{role}/{proposal}"] = rate_by_problem(is_such, programs["problem_id"])
    return figures


def program_problem_columns(rows: pd.DataFrame, role: Role) -> dict[str, pd.Series]:
    """
    Return a role's columns of the table of problems, indexed by problem.

    Returns: `certified_wrong_<role>`, the share of a problem's solutions with a certificate, and the means
        `visible_pass_rate_<role>`, `hidden_pass_rate_<role>` and `similarity_<role>`.
    """
    columns = {f"certified_wrong_{role}": is_certified_wrong(rows).groupby(rows["problem_id"]).mean()}
    for name in ("visible_pass_rate", "hidden_pass_rate", "similarity"):
        columns[f"{name}_{role}"] = rows[name].astype(float).groupby(rows["problem_id"]).mean()
    return columns


def weighted_quantile(values: np.ndarray, share: float) -> Statistic:
    """
    Return a quantile as a function of weights: the smallest value that at least this share of the weight does not
    exceed.

    Args:
        values: shape `(n,)`. Finite numbers.
        share: In (0, 1).
    Returns: maps weights of shape `(num_resamples, n)` to quantiles of shape `(num_resamples,)`; NaN without weight.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]

    def statistic(weights: np.ndarray) -> np.ndarray:
        sums = np.cumsum(weights[:, order], axis=1)  # (num_resamples, n)
        places = (sums < share * sums[:, -1:]).sum(axis=1)
        return np.where(sums[:, -1] > 0, ordered[places], np.nan)

    return statistic


def _mean_share(rows: pd.DataFrame, shares: pd.Series) -> Figure:
    """Mean of known shares in [0, 1]."""
    known = shares.notna()
    return share_by_problem(shares[known].astype(float), rows.loc[known, "problem_id"])
