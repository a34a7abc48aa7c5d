"""Metrics of a verifier on held-out pairs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch


class ScoredPair(NamedTuple):
    """
    A pair of an evaluation set with its scores.

    Args:
        chosen, rejected: Scores, unbounded.
        clean_order: 1 if only the chosen solution is truly correct, -1 if only the rejected one is, 0 for a tie.
    """

    row_index: int
    chosen: float
    rejected: float
    clean_order: int = 1
    source: str | None = None
    margin: float = 0.0


def scored_pairs(chosen: torch.Tensor, rejected: torch.Tensor, batch: Mapping[str, Any]) -> list[ScoredPair]:
    """
    Combine the scores of a batch with its columns.

    Args:
        chosen, rejected: shape `(num_pairs,)`. Scores of the pairs.
    """
    num_pairs = len(chosen)
    columns = (
        batch["row_index"].tolist(),
        chosen.float().tolist(),
        rejected.float().tolist(),
        batch["clean_order"].tolist(),
        batch.get("source", [None] * num_pairs),
        batch["margin"].tolist() if "margin" in batch else [0.0] * num_pairs,
    )
    return [ScoredPair(*row) for row in zip(*columns, strict=True)]


def unique_pairs(pairs: Iterable[ScoredPair]) -> list[ScoredPair]:
    """Deduplicate pairs by row index: to make batches even, rows are repeated on some processes."""
    return [pair for _, pair in sorted({pair.row_index: pair for pair in pairs}.items())]


def pair_metrics(pairs: Sequence[ScoredPair]) -> dict[str, float]:
    """
    Compute the metrics of scored pairs.

    Returns: `min_reward`, `mean_reward`, `max_reward`, `margin` (mean difference of scores); `accuracy` (share of
        pairs in which the chosen solution scores higher; equal scores count half), `clean_accuracy` (share of pairs in
        which the truly correct solution does, over the `num_clean_pairs` that are not truly tied; omitted if there are
        none) and `num_pairs`; and the last four again per source, e.g. as `accuracy/SOURCE`.
    """
    scores = [score for pair in pairs for score in (pair.chosen, pair.rejected)]
    metrics = {
        "min_reward": min(scores),
        "mean_reward": sum(scores) / len(scores),
        "max_reward": max(scores),
        "margin": sum(pair.chosen - pair.rejected for pair in pairs) / len(pairs),
        **_accuracies(pairs),
    }
    for source, members in _group_by_source(pairs).items():
        metrics |= {f"{key}/{source}": value for key, value in _accuracies(members).items()}
    return metrics


def _accuracies(pairs: Sequence[ScoredPair]) -> dict[str, float]:
    right = [_win(pair.chosen - pair.rejected) for pair in pairs]
    # A truly tied pair has no right order and is not counted.
    clean = [_win(pair.clean_order * (pair.chosen - pair.rejected)) for pair in pairs if pair.clean_order]
    metrics = {"accuracy": sum(right) / len(right), "num_pairs": len(right), "num_clean_pairs": len(clean)}
    if clean:
        metrics["clean_accuracy"] = sum(clean) / len(clean)
    return metrics


def _win(difference: float) -> float:
    """Return 1 if the difference is positive, 0.5 for equal scores, else 0; as in the figures of the evaluation."""
    return 0.5 * ((difference > 0) + (difference >= 0))


def _group_by_source(pairs: Sequence[ScoredPair]) -> Mapping[str, list[ScoredPair]]:
    groups = defaultdict(list)
    for pair in pairs:
        if pair.source is not None:
            groups[pair.source].append(pair)
    return groups
