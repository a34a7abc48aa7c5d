"""Evaluates a new verifier on its held-out problems, calibrates it, and refuses a degenerate verifier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from datasets import Dataset

from pvg_hf.config import Recipe
from pvg_hf.config.sections import DataConfig
from pvg_hf.core.commands import delete_command, play_command
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_parquet
from pvg_hf.core.stopwatch import EVALUATING, spending
from pvg_hf.data.pairs.build import REFERENCE
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import GameProblems
from pvg_hf.data.schema import Outcome, environment_name
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.role_figures import has_failed, scored_rows
from pvg_hf.evaluation.verifier_quality import best_separation, calibrate, pair_accuracy, pair_wins
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.labels import LabelSource
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.run.environment import launcher
from pvg_hf.run.layout import HELDOUT, RunFolder
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer

POOL_COLUMNS = ("problem_id", "problem", "solution", "role", "round_index", "correct", "outcome")


class DegenerateVerifierError(ValueError):
    """
    The verifier does not separate correct from incorrect solutions, so that no prover should be trained against it.
    """


@dataclass(frozen=True)
class Heldout:
    """Held-out data on which a verifier is evaluated."""

    rows: pd.DataFrame  # problem_id, problem, solution, correct, outcome, environment (their source)
    pairs: Dataset  # of the mixture; the chosen solution is truly correct and the rejected one is not


def read_heldout(files: Sequence[Path], pairs: Dataset, config: DataConfig, problems: GameProblems) -> Heldout:
    """
    Collect the solutions in `files` to held-out problems, and the references if `correct_source` uses them.

    Raises `ValueError` if there are no correct or no incorrect solutions, or no pairs. This fails before the training.
    """
    clean = pairs.filter(lambda row: row["chosen_correct"] and not row["rejected_correct"], keep_in_memory=True)
    rows = load_pool(files, POOL_COLUMNS, parts=("verifier_heldout",)).to_pandas()
    rows["environment"] = [environment_name(*writer) for writer in zip(rows["round_index"], rows["role"])]
    rows = rows.drop(columns=["round_index", "role"])
    if config.correct_source != "prover":
        rows = pd.concat([rows, _references(problems)], ignore_index=True)
    correct = rows.loc[~has_failed(rows), "correct"]
    if correct.all() or not correct.any() or not len(clean):
        raise ValueError(
            f"The verifier cannot be evaluated on D_V's held-out part: of {len(rows)} solutions {len(correct)} did not"
            f" fail, {correct.sum()} of these are correct, and {len(clean)} of {len(pairs)} pairs are truly in the"
            " order of their labels. Use more problems, raise `split.heldout_share`, or take the correct sides from"
            " the references (`data.correct_source: dataset`)."
        )
    return Heldout(rows, clean)


def _references(problems: GameProblems) -> pd.DataFrame:
    """Reference solutions of the held-out problems, as correct rows of a separate environment."""
    columns = {"problem_id": "problem_id", "problem": "problem", "reference": "solution"}
    rows = problems.parts["verifier_heldout"].select_columns(list(columns)).to_pandas()
    return rows.rename(columns=columns).assign(correct=True, outcome=Outcome.VERIFIED.value, environment=REFERENCE)


@spending(EVALUATING)
def score_heldout(
    context: PhaseContext, scorer: VerifierScorer | GenerativeVerifier, verifier: Path, heldout: Heldout
) -> str:
    """
    Score all held-out solutions and pairs, write `heldout.parquet` and `calibration.json`, and return a one-line
    summary.

    The calibration holds the scores of correct solutions, from which thresholds follow, and the line from a score to
    the log-odds of being correct. A likelihood, whose scores have no natural zero, gets the bias with which 0
    separates correct from incorrect solutions best.

    Raises `DegenerateVerifierError` if the pair accuracy (with `stopping.labels: observed`, that by the observed
    labels) is below `watchdogs.min_pair_accuracy`, or all scores are equal.
    """
    pairs = heldout.pairs
    with context.stop.sharing():  # every process scores everything
        rows = heldout.rows.assign(score=scorer(heldout.rows["problem"].tolist(), heldout.rows["solution"].tolist()))
        # (num_pairs,) each.
        chosen, rejected = (np.array(scorer(pairs["problem"][:], pairs[side][:])) for side in ("chosen", "rejected"))
    accuracy = rate_by_problem(pair_wins(chosen, rejected), pairs["problem_id"][:])
    answered = scored_rows(rows)
    source = LabelSource.for_decisions(context, verifier, is_noisy=context.recipe.noise.is_for_verifier)
    known, labels = _deciding_labels(source, answered, context.problems)
    is_observed = context.recipe.stopping.labels == "observed"
    decisive = pair_accuracy(known.assign(correct=labels)) if is_observed else accuracy
    _check_pair_accuracy(context.recipe, context.round_index, verifier, answered, decisive)

    separation = best_separation(known["score"].to_numpy(), labels)
    bias = -separation if context.recipe.verifier.traits.scores_by_likelihood else 0.0
    rows, known = (table.assign(score=table["score"] + bias) for table in (rows, known))
    calibration = calibrate(known, labels, pair_accuracy=accuracy)
    # A process that still loads the verifier checks all files of its folder: none may be half written then.
    context.processes.wait_for_everyone()
    if context.processes.is_main_process:
        if bias:
            replace(VerifierInput.load(verifier), likelihood_bias=bias).save(verifier)
        write_parquet(verifier / HELDOUT, rows)
        calibration.save(verifier)
    counts: dict[str, float | None] = {f"verifier/{name}": number for name, number in scorer.counts.items()}
    if is_observed:
        counts["verifier/observed/heldout_pair_accuracy"] = decisive.value
    threshold = calibration.acceptance().threshold
    context.record({"verifier/heldout_pair_accuracy": accuracy.value, "verifier/threshold": threshold, **counts})
    context.processes.wait_for_everyone()
    return f"pair accuracy {accuracy} on the held-out part of its mixture"


def _deciding_labels(
    source: LabelSource | None, rows: pd.DataFrame, problems: GameProblems
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the solutions that have a label of `source` (by default, the clean one), and these labels as booleans."""
    if source is None:
        return rows, rows["correct"].to_numpy()
    by_id = {problem["problem_id"]: problem for problem in problems.parts["verifier_heldout"]}
    asked = [{**by_id[row["problem_id"]], **row} for row in rows.to_dict("records")]
    labels = pd.Series(source.observed(asked, 0), index=rows.index, dtype="Int8")
    source.close()
    labels[rows["environment"] == REFERENCE] = 1  # references have no noise
    is_known = labels.notna()
    return rows[is_known], (labels[is_known] == 1).to_numpy(dtype=bool)


def _check_pair_accuracy(
    recipe: Recipe, round_index: int, verifier: Path, answered: pd.DataFrame, accuracy: Figure
) -> None:
    least = recipe.watchdogs.min_pair_accuracy
    advice = _continue_advice(recipe, round_index, verifier)
    if answered["score"].nunique() == 1:
        raise DegenerateVerifierError(
            f"The verifier of round {round_index} gives every held-out solution the same score. Train it longer "
            f"(`verifier.max_steps`), on more problems, or with another learning rate. {advice}"
        )
    if accuracy.value is not None and accuracy.value < least:  # there is no rate without a pair
        raise DegenerateVerifierError(
            f"The verifier of round {round_index} orders a share of {accuracy.value:.2f} of the held-out pairs"
            f" correctly, below `watchdogs.min_pair_accuracy` = {least}; a prover trained against it would learn"
            " nothing. Train it longer (`verifier.max_steps`), on more problems (`data`, `bootstrap`), or with"
            f" another learning rate. {advice}"
        )


def _continue_advice(recipe: Recipe, round_index: int, verifier: Path) -> str:
    """Advice on how to change settings of a round whose verifier is being written to the folder `verifier`."""
    longer = f"rounds.{round_index}.verifier.max_steps={2 * recipe.verifier.max_steps}"
    command = play_command(RunFolder.of(recipe).root, longer, launcher=launcher())
    return (
        f"To train this round's verifier twice as long: `{delete_command(verifier)} && {command}`. Other settings of"
        " the round are changed in the same way; the problems and `bootstrap` hold for the whole game: to change"
        " them, start a run with another `name`."
    )
