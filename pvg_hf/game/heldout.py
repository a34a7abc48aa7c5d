"""Judges a new verifier on D_V's held-out part, chooses its threshold, and refuses a degenerate one."""

from pathlib import Path

import numpy as np
import pandas as pd
from datasets import Dataset

from pvg_hf.data.pool import load_pool
from pvg_hf.data.schema import round_name
from pvg_hf.evaluation.intervals import rate_by_problem
from pvg_hf.evaluation.roles import judged
from pvg_hf.evaluation.verifier_quality import choose_threshold
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.folder import write_json
from pvg_hf.game.players import open_scorer


class DegenerateVerifierError(ValueError):
    """A verifier that no prover should be trained against."""


def score_heldout(context: PhaseContext, verifier: Path, pairs: Dataset) -> str:
    """
    Score every held-out solution (`heldout.parquet`, with its `source`), and the held-out pairs of the mixture.

    Raises:
        DegenerateVerifierError: if the pair accuracy does not beat `watchdogs.min_pair_accuracy`, or all scores are equal.
    """
    scorer = open_scorer(context, verifier)
    rows = load_pool(context.folder.training_pools(context.round_index)).to_pandas()
    rows = rows[rows["part"] == "verifier_heldout"].reset_index(drop=True)
    rows["score"] = scorer(rows["problem"].tolist(), rows["solution"].tolist())
    rows["source"] = rows["round_index"].map(round_name)

    clean = pairs.filter(lambda row: row["chosen_correct"] and not row["rejected_correct"], keep_in_memory=True)
    chosen, rejected = (np.array(scorer(clean["problem"][:], clean[side][:])) for side in ("chosen", "rejected"))
    accuracy = rate_by_problem(chosen > rejected, clean["problem_id"][:])
    _refuse_degenerate(context, rows, accuracy.value)

    answered = judged(rows)
    threshold = choose_threshold(answered["score"].to_numpy(), answered["correct"].to_numpy())
    if context.processes.is_main_process:
        rows.to_parquet(verifier / "heldout.parquet")
        write_json(verifier / "calibration.json", {"threshold": threshold, "pair_accuracy": accuracy.to_dict()})
    context.record({"verifier/heldout_pair_accuracy": accuracy.value, "verifier/threshold": threshold})
    context.processes.wait_for_everyone()
    return f"pair accuracy {accuracy} on the held-out part of its mixture"


def _refuse_degenerate(context: PhaseContext, rows: pd.DataFrame, pair_accuracy: float | None) -> None:
    least = context.recipe.watchdogs.min_pair_accuracy
    if rows["score"].std() == 0:
        raise DegenerateVerifierError(
            f"The verifier of round {context.round_index} gives every held-out solution the same score. Train it longer "
            "(`verifier.max_steps`), on more problems, or with another learning rate."
        )
    if pair_accuracy is None:
        raise DegenerateVerifierError(
            f"Round {context.round_index} has no held-out pair to judge the verifier by: of {len(rows)} held-out "
            f"solutions {int(rows['correct'].sum())} are correct. Use more problems, or raise `split.heldout_share`."
        )
    if pair_accuracy < least:
        raise DegenerateVerifierError(
            f"The verifier of round {context.round_index} orders {pair_accuracy:.2f} of the held-out pairs rightly, below "
            f"`watchdogs.min_pair_accuracy` = {least}; a prover trained against it would learn nothing. Train it longer "
            "(`verifier.max_steps`), on more problems (`data`, `bootstrap`), or with another learning rate."
        )
