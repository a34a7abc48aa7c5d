"""Measures of a cell, by clean labels, on solutions that all cells of a seed share."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open

from pvg_hf.config import Recipe
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.integrity import read_json
from pvg_hf.core.roles import Role
from pvg_hf.data.pairs.build import REFERENCE
from pvg_hf.data.pool import load_pool
from pvg_hf.data.schema import environment_name
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.evaluation.role_figures import scored_rows
from pvg_hf.evaluation.verifier_quality import pair_accuracy, roc_auc
from pvg_hf.losses import bradley_terry
from pvg_hf.run.layout import FIGURES, HELDOUT, RunFolder

CHANCE = 0.5
EQUAL_SCORES = math.log(2)  # loss in nats per pair of a verifier with equal scores for all solutions
SHARED = (environment_name(BASE_ROUND, Role.BASE), REFERENCE)  # sources that do not depend on the noise
CHANGE = "_change"  # suffix of a measure's difference to the same seed's clean reference
DISTANCE = "parameter_distance"
BASE_HELPFUL = "base_helpful_accuracy"


@dataclass(frozen=True)
class Measure:
    """
    A measured quantity of a sweep.

    Args:
        floor: Value if the verifier, or the game, has no effect: a number, or the name of a figure of the clean
            reference. A measure breaks down where it is halfway between its value without noise and the floor.
        is_loss: Whether lower is better; the floor is then the upper end.
        why_no_floor: Reason shown in the summary if there is no floor.
    """

    title: str
    floor: float | str | None = None
    is_loss: bool = False
    why_no_floor: str = ""

    @property
    def is_share(self) -> bool:
        """Whether the measure is a share with a floor, for which higher is better."""
        return self.floor is not None and not self.is_loss

    @property
    def sign(self) -> int:
        """Sign of an improvement."""
        return -1 if self.is_loss else 1


MEASURES = {
    "pair_accuracy": Measure("clean pair accuracy", CHANCE),
    "auc": Measure("clean AUC", CHANCE),
    "clean_loss": Measure("clean loss (nats a pair)", EQUAL_SCORES, is_loss=True),
    DISTANCE: Measure(
        "parameter distance (share of the norm)",
        why_no_floor="it is 0 by definition when clean, and a distance alone does not show a loss",
    ),
    "helpful_accuracy": Measure(heading_of("accuracy/helpful"), BASE_HELPFUL),
    "prover_success": Measure(
        "prover success (share accepted)",
        why_no_floor="an uninformative verifier may accept everything or nothing, depending on its threshold",
    ),
}


def measure_cell(recipe: Recipe, folder: RunFolder, reference: RunFolder) -> dict[str, Figure]:
    """
    Measure a finished cell.

    Args:
        recipe: Recipe of the cell.
        folder, reference: Runs of the cell and of its clean reference.
    Returns: figures by the keys of `MEASURES`. The last two keys, and `base_helpful_accuracy`, exist only for whole
        games. `prover_success` is the share of sneaky incorrect test solutions that the verifier accepts.
    """
    last = recipe.num_rounds - 1
    verifier = folder.verifier(last)
    rows = scored_rows(load_pool(verifier / HELDOUT).to_pandas())
    rows = rows[rows["environment"].isin(SHARED)]
    figures = {"pair_accuracy": pair_accuracy(rows), "auc": roc_auc(rows), "clean_loss": clean_loss(rows)}
    figures[DISTANCE] = parameter_distance(verifier, reference.verifier(last))
    if folder.evaluation(last).exists():
        stored = read_json(folder.evaluation(last) / FIGURES, dict[str, Figure])
        names = {"helpful_accuracy": "accuracy/helpful", "prover_success": "exploit_rate"}
        names[BASE_HELPFUL] = "base_accuracy/helpful"
        figures |= {name: stored.get(f"round/{key}", EMPTY) for name, key in names.items()}
    return figures


def clean_loss(rows: pd.DataFrame) -> Figure:
    """
    Mean Bradley-Terry loss over all (correct, incorrect) pairs of the same problem, for a verifier trained with any
    loss.

    Args:
        rows: Solutions with `problem_id`, `score` and `correct`.
    Returns: the loss in nats, without interval; `n` is the number of pairs.
    """
    total, num_pairs = 0.0, 0
    for _, group in rows.groupby("problem_id", sort=False):
        scores, correct = torch.tensor(group["score"].to_numpy(float)), torch.tensor(group["correct"].to_numpy(bool))
        # (num_correct, num_incorrect): all pairs of one problem.
        chosen, rejected = torch.meshgrid(scores[correct], scores[~correct], indexing="ij")
        if chosen.numel():
            total += float(bradley_terry(chosen.flatten(), rejected.flatten())) * chosen.numel()
            num_pairs += chosen.numel()
    return Figure(total / num_pairs if num_pairs else None, None, None, num_pairs)


def parameter_distance(verifier: Path, reference: Path) -> Figure:
    """
    Euclidean distance between two verifiers' saved weights, divided by the norm of the reference's.

    Saved weights are the whole model, or an adapter and a head.

    Raises `ValueError` if their files do not hold the same tensors.
    """
    ours, theirs = _weights(verifier), _weights(reference)
    if ours.keys() != theirs.keys():
        differing = sorted(ours.keys() ^ theirs.keys())[:5]
        raise ValueError(f"{verifier} and {reference} hold different tensors, such as {differing}.")
    distance = np.sqrt(sum(np.square(ours[name] - theirs[name]).sum() for name in ours))
    norm = np.sqrt(sum(np.square(weights).sum() for weights in theirs.values()))
    return Figure(float(distance / norm), None, None, sum(weights.size for weights in ours.values()))


def _weights(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name).double().numpy() for name in file.keys()}  # noqa: SIM118
    return found
