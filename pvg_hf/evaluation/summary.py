"""Computes all figures of a round, from its scored test solutions and the verifier's held-out solutions."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pvg_hf.core.acceptance import Acceptance
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.pairs.build import REFERENCE
from pvg_hf.evaluation.accepted_by_kind import acceptance_figures, author_separability
from pvg_hf.evaluation.best_of_n import balanced_best_of_n, predicted_best_of_n
from pvg_hf.evaluation.intervals import difference, rate_by_problem, rate_difference, with_problems
from pvg_hf.evaluation.roc import monitor_figures, roc_figures
from pvg_hf.evaluation.role_figures import (
    diversity_figures,
    flaw_figures,
    game_figures,
    game_sides,
    has_flaws,
    is_valid_mistake,
    role_figures,
    scored_rows,
)
from pvg_hf.evaluation.selective import SameAnswer, answer_figures
from pvg_hf.evaluation.solution_kinds import find_kinds
from pvg_hf.evaluation.verifier_quality import judge_crossfitted, pair_accuracy, quality_figures
from pvg_hf.tasks.answers import answers_equal

TEST_COLUMNS = (
    "problem_id",
    "role",
    "round_index",
    "sample_index",
    "solution",
    "answer",
    "correct",
    "outcome",
    "score",
    "num_tokens",
    "is_truncated",
)
HELDOUT_COLUMNS = ("problem_id", "solution", "environment", "correct", "outcome", "score")


def evaluate_round(
    test_rows: pd.DataFrame,
    heldout_rows: pd.DataFrame,
    acceptance: Acceptance,
    *,
    best_helpful_rows: pd.DataFrame | None = None,
    best_of_n: Sequence[int],
    same_answer: SameAnswer = answers_equal,
    seed: int,
    num_resamples: int,
) -> dict[str, Figure]:
    """
    Compute the figures of a round, by keys such as `round/accuracy/helpful` (see the catalogue); `round/base_` for the
    base prover.

    `test_rows` are test solutions in the pool's columns: this round's helpful and sneaky ones, and the base prover's
    in both roles (`round_index` -1). `heldout_rows` are solutions to the verifier's held-out problems, with their
    `environment` (`base`, `round-000-sneaky`, ..., or `reference` if references are the correct side of pairs). This
    round's verifier has scored both, and decides by `acceptance`. `best_helpful_rows` are test solutions of this
    round's best helpful checkpoint, if the helpful role was trained; `best_of_n` has even sizes. Bootstraps are over
    problems, and each figure's seed derives from its name. A figure without data is empty.

    Raises:
        ValueError: if a column is missing, or the test rows contain two rounds in addition to the base prover's.
    """
    _check(test_rows, heldout_rows)
    draws = {"seed": seed, "num_resamples": num_resamples}
    is_base = test_rows["round_index"] == BASE_ROUND
    current, base = test_rows[~is_base], test_rows[is_base]
    helpful, sneaky = (_role_rows(current, role) for role in GAME_ROLES)
    figures = {
        **_prover_figures(current, **draws),
        **{f"base_{name}": figure for name, figure in _prover_figures(base, **draws).items()},
        **_changes(current, best_helpful_rows, base, **draws),
        **game_figures(helpful, sneaky, acceptance, **draws),
        **_best_of_n_figures(scored_rows(helpful), best_of_n, **draws),
        **answer_figures(
            helpful if best_helpful_rows is None else best_helpful_rows,
            seed=derive_seed(seed, "answers"),
            same=same_answer,
        ),
        **_verifier_figures(scored_rows(heldout_rows), **draws),
        **{f"test_{name}": figure for name, figure in roc_figures(scored_rows(current), acceptance, **draws).items()},
        **{f"test_{name}": figure for name, figure in monitor_figures(*game_sides(helpful, sneaky), **draws).items()},
        **acceptance_figures(scored_rows(current)),
        **_author_figures(scored_rows(heldout_rows), seed=seed),
        "test_pair_accuracy": pair_accuracy(scored_rows(current)),
        "test_pair_accuracy/base": pair_accuracy(scored_rows(base)),
        "threshold": Figure(acceptance.threshold, None, None, len(scored_rows(heldout_rows))),
    }
    return {f"round/{name}": figure for name, figure in figures.items()}


def problem_table(test_rows: pd.DataFrame) -> pd.DataFrame:
    """
    Return a table with one row per test problem, from the `test_rows` of [`evaluate_round`].

    Its columns are `problem_id`, `difficulty` (if the task has it), `accuracy_<role>`, `base_accuracy_<role>`,
    `mean_score_<cell>` and `best_score_<cell>` for the cells `helpful_correct` and `sneaky_incorrect`, and `fooled`:
    whether the best sneaky incorrect solution outscores the best helpful correct one (null if one of them is missing).
    Registered kinds of solutions add columns.
    """
    is_base = test_rows["round_index"] == BASE_ROUND
    current, base = test_rows[~is_base], test_rows[is_base]
    problem_ids = pd.Index(test_rows["problem_id"].unique(), name="problem_id")
    table = pd.DataFrame(index=problem_ids)
    if "difficulty" in test_rows:
        table["difficulty"] = test_rows.groupby("problem_id")["difficulty"].first()
    for prefix, rows in (("", current), ("base_", base)):
        for role in GAME_ROLES:
            table[f"{prefix}accuracy_{role}"] = _role_rows(rows, role).groupby("problem_id")["correct"].mean()
    for kind in find_kinds(current.columns):
        for role in GAME_ROLES:
            table = table.assign(**kind.problem_columns(_role_rows(current, role), role))
    for cell, role, is_correct in (("helpful_correct", Role.HELPFUL, True), ("sneaky_incorrect", Role.SNEAKY, False)):
        rows = scored_rows(_role_rows(current, role))
        scores = rows[rows["correct"].astype(bool) == is_correct].groupby("problem_id")["score"]
        table[f"mean_score_{cell}"], table[f"best_score_{cell}"] = scores.mean(), scores.max()
    best_helpful, best_sneaky = table["best_score_helpful_correct"], table["best_score_sneaky_incorrect"]
    # A comparison with NaN is False, so problems without both solutions are set to null.
    table["fooled"] = (best_sneaky > best_helpful).astype("boolean").mask(best_helpful.isna() | best_sneaky.isna())
    return table.reset_index()


def _prover_figures(rows: pd.DataFrame, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for role in GAME_ROLES:
        selected = _role_rows(rows, role)
        for family in (role_figures, diversity_figures):
            figures |= family(selected, role, seed=seed, num_resamples=num_resamples)
        if has_flaws(rows):
            figures |= flaw_figures(selected, role)
        for kind in find_kinds(rows.columns):
            figures |= kind.figures(selected, role, seed=seed, num_resamples=num_resamples)
    return figures


def _best_of_n_figures(
    helpful: pd.DataFrame, sizes: Sequence[int], *, seed: int, num_resamples: int
) -> dict[str, Figure]:
    """Balanced best-of-n as measured, and as predicted from the ROC curve of all helpful solutions."""
    draws = {"seed": derive_seed(seed, "best_of_n"), "num_resamples": num_resamples}
    measured = {f"best_of_n/{n}": balanced_best_of_n(helpful, n) for n in sizes}
    return measured | {f"best_of_n_predicted/{n}": predicted_best_of_n(helpful, n, **draws) for n in sizes}


def _changes(
    current: pd.DataFrame, best_helpful: pd.DataFrame | None, base: pd.DataFrame, *, seed: int, num_resamples: int
) -> dict[str, Figure]:
    """Return this round's figures minus the base prover's, paired by problem, with the same verifier."""
    sides = {f"accuracy_change/{role}": (_role_rows(current, role), _role_rows(base, role)) for role in GAME_ROLES}
    figures = {}
    if best_helpful is not None:
        sides["accuracy_change/best_helpful"] = (best_helpful, _role_rows(base, Role.HELPFUL))
        name = "accuracy/best_helpful"
        figures[name] = rate_by_problem(*with_problems(best_helpful, "correct"))
    for name, (rows, base_rows) in sides.items():
        figures[name] = rate_difference(*with_problems(rows, "correct"), *with_problems(base_rows, "correct"))
    sneaky, base_sneaky = (_role_rows(rows, Role.SNEAKY) for rows in (current, base))
    return {**figures, **_sneaky_changes(sneaky, base_sneaky, seed=seed, num_resamples=num_resamples)}


def _sneaky_changes(
    sneaky: pd.DataFrame, base_sneaky: pd.DataFrame, *, seed: int, num_resamples: int
) -> dict[str, Figure]:
    name, sides = "score_change/sneaky_incorrect", (sneaky, base_sneaky)
    valid, base_valid = map(is_valid_mistake, sides)
    mistakes, base_mistakes = (rows[is_valid_mistake(rows) & rows["score"].notna()] for rows in sides)
    return {
        "valid_sneaky_change": rate_difference(valid, sneaky["problem_id"], base_valid, base_sneaky["problem_id"]),
        name: difference(
            *with_problems(mistakes, "score"),
            *with_problems(base_mistakes, "score"),
            seed=derive_seed(seed, name),
            num_resamples=num_resamples,
        ),
    }


def _verifier_figures(rows: pd.DataFrame, *, seed: int, num_resamples: int) -> dict[str, Figure]:
    """
    Compute the verifier's figures on all judged held-out solutions, and per environment.

    An environment's incorrect solutions are compared with every correct solution to the same problems, whoever wrote
    it, as in training pairs. Even a prover that is never correct can be judged this way.
    """
    rows = rows.assign(judged_correct=judge_crossfitted(rows, seed=derive_seed(seed, "halves")))
    parts: dict[str, tuple[pd.DataFrame, pd.DataFrame | None]] = {"": (rows, None)}
    for name, part in rows.groupby("environment"):
        parts[f"/{name}"] = (part, _correct_in_same_problems(part, rows))
    return {
        f"verifier_{name}{suffix}": figure
        for suffix, (part, compared) in parts.items()
        for name, figure in quality_figures(
            part, compared=compared, seed=derive_seed(seed, "verifier", suffix), num_resamples=num_resamples
        ).items()
    }


def _author_figures(rows: pd.DataFrame, *, seed: int) -> dict[str, Figure]:
    """
    Tell the reference solutions among the held-out ones from those of provers, if the verifier learned from both.
    """
    is_reference = rows["environment"] == REFERENCE
    if not is_reference.any():
        return {}
    return {"author_separability": author_separability(rows, is_reference, seed=derive_seed(seed, "authors"))}


def _correct_in_same_problems(part: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    problem_ids = part.loc[~part["correct"].astype(bool), "problem_id"]
    return rows[rows["correct"].astype(bool) & rows["problem_id"].isin(problem_ids)]


def _role_rows(rows: pd.DataFrame, role: Role) -> pd.DataFrame:
    return rows[rows["role"] == role.value]


def _check(test_rows: pd.DataFrame, heldout_rows: pd.DataFrame) -> None:
    for name, rows, needed in (
        ("test_rows", test_rows, TEST_COLUMNS),
        ("heldout_rows", heldout_rows, HELDOUT_COLUMNS),
    ):
        missing = [column for column in needed if column not in rows]
        if missing:
            raise ValueError(f"`{name}` lacks the columns {missing}; it has {list(rows.columns)}.")
    rounds = np.setdiff1d(test_rows["round_index"].unique(), [BASE_ROUND])
    if len(rounds) > 1:
        raise ValueError(f"`test_rows` has the rounds {rounds.tolist()}; pass one round and the base prover's.")
