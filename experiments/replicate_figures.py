"""The figures of a replicated recipe that are tabulated: a value per run, figure and round."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from pvg_hf.core.roles import GAME_ROLES
from pvg_hf.evaluation.best_of_n import LEAST_ELIGIBLE, largest_common_n
from pvg_hf.evaluation.role_recognition import BY_ANSWER, BY_FLAWS
from pvg_hf.report.pool_tables import pool_cells
from pvg_hf.run.read import RunData

HEADLINES = (
    "accuracy/helpful",
    "accuracy_change/helpful",
    "accuracy/sneaky",
    "valid_sneaky",
    "completeness",
    "soundness",
    "test_auc",
    "verifier_pair_accuracy",
    *(f"accepted_role/{role}/{kind}" for role in GAME_ROLES for kind in (*BY_FLAWS, *BY_ANSWER)),
    "late_change/helpful",
    "implicit_share/helpful",
    "step_validity/helpful",
    "hidden_mistake/sneaky",
    "certificate_rate/sneaky",
    "similarity/sneaky_wrong",
    "similarity/helpful_correct",
)
"""Figures of a round whose means over seeds are tabulated; those of later evaluations are added as far as they exist."""

JUDGED_HEADLINES = {
    "role_separability": r"(ngrams|transformer)/(all|incorrect)",
    "style": r"(base/)?explained_within/(all|flaws)|explained/correct",
    "legibility": r"judge_(auc|single|pair)/(helpful|game)|change/(implicit_share|step_validity|num_tokens)/helpful_correct"
    r"|change/judge_auc/(helpful|game)",
    "attacks": r".+/(found|mean_steps|convincing_steps|accepted)",
    "untrained_attacks": r"reference|other_problem|answer_alone/(correct|incorrect)|truncated/1|near_miss/.+|search/16",
    "regression": r"accepted/all",
    "legibility_tax": r"(accuracy|step_validity|implicit_share|judge_auc/\w+)/(game|correctness_only)_less_(correctness_only|base)",
}
"""Figures of later evaluations that are tabulated, as patterns of their names, by evaluation."""

BEST_OF_N = "best_of_n"  # evaluation of which one n is tabulated

ACCEPTED_IN_ALL_POOLS = "sneaky mistakes accepted, mean over all pools"

PARITY_REACHED = "parity reached"

PARITY_STEP = "step of parity, or of the end of the training without it"


Values = dict[tuple[str, int], float]  # by figure and round


def names_in(values: Sequence[Values]) -> list[str]:
    """Return the names of the figures that any run has, each once."""
    return list(dict.fromkeys(name for found in values for name, _ in found))


def values_of(runs: Sequence[RunData], *, pools: Collection[int] | None = None) -> list[Values]:
    """
    Return the values of the tabulated figures of each run, with best-of-n at the largest n that can be compared in all.

    Args:
        runs (`Sequence[RunData]`):
            The runs.
        pools (`Collection[int]`, *optional*):
            The provers, by round, over whose mistakes verifiers are averaged; by default all of each run.
    """
    drawn = [judgement.figures for run in runs for judgement in run.judgements if judgement.name == BEST_OF_N]
    size = largest_common_n(drawn, least_eligible=LEAST_ELIGIBLE)
    patterns = JUDGED_HEADLINES if size is None else {**JUDGED_HEADLINES, BEST_OF_N: str(size)}
    return [{**_round_values(run, pools), **dict(_judged_values(run, patterns))} for run in runs]


def _round_values(run: RunData, pools: Collection[int] | None) -> Values:
    found = {
        (name, data.round_index): data.figure(name).value
        for name in HEADLINES
        for data in run.evaluated
        if data.figure(name).value is not None
    }
    for data in run.evaluated:
        parity = data.figure("parity_step")
        if parity.n:  # steps of the sneaky role's training
            found[PARITY_REACHED, data.round_index] = float(parity.value is not None)
            found[PARITY_STEP, data.round_index] = float(parity.n if parity.value is None else parity.value)
    cells = pool_cells(run, "accepted")
    # Only verifiers that judged every pool are comparable.
    pools = {pool for _, pool in cells} if pools is None else pools
    for verifier in sorted({verifier for verifier, _ in cells}):
        shares = [cells[verifier, pool].value for pool in sorted(pools) if (verifier, pool) in cells]
        if len(shares) == len(pools) and None not in shares:
            found[ACCEPTED_IN_ALL_POOLS, verifier] = float(np.mean(shares))
    return found


def _judged_values(run: RunData, patterns: Mapping[str, str]) -> Iterator[tuple[tuple[str, int], float]]:
    for judgement in run.judgements:
        for name, figure in judgement.figures.items():
            if figure.value is not None and re.fullmatch(patterns.get(judgement.name, ""), name):
                yield (f"{judgement.name}/{name}", judgement.round_index), figure.value
