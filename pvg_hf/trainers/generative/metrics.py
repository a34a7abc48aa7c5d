"""Metrics of a score verifier's training step."""

from dataclasses import dataclass

import torch

from pvg_hf.analyses.form import ALLOWED_SCORES


@dataclass(frozen=True)
class ScoreSignals:
    """
    Evaluations of a step, over all processes. Each tensor has shape `(N,)`.

    Args:
        predicted: Predicted scores; NaN if unreadable.
        reference: True scores; NaN if unknown.
        has_form, is_cut: Booleans: whether the form is kept; whether the maximum length was reached.
        is_judgment: Boolean: whether an analysis is evaluated, rather than a proof.
        quality: Factor of the meta-verifier in the reward, in [0, 1]; 1 if it need not be asked.
        was_asked, is_unreadable: Booleans: whether the meta-verifier was asked, and whether its answer was unreadable.
    """

    predicted: torch.Tensor
    reference: torch.Tensor
    has_form: torch.Tensor
    is_cut: torch.Tensor
    is_judgment: torch.Tensor
    quality: torch.Tensor
    was_asked: torch.Tensor
    is_unreadable: torch.Tensor


def score_metrics(signals: ScoreSignals) -> dict[str, float]:
    """
    Compute the metrics of a step: for evaluations of proofs, and with the prefix `judge/` for those of analyses.

    A metric without observations is omitted.

    Returns: over all evaluations `format_rate`, `cut` (reached the maximum length), `unscorable` (no reference score);
        over those with a reference `score_accuracy` (the predicted score is right; an unreadable one is wrong),
        `confusion/TRUE_as_PREDICTED` (shares of all of them, which sum to 1; `none` for unreadable scores) and
        `false_positive_rate` (share of the proofs of score 0 that got a 1); over those with both scores `score_error`
        (mean absolute difference); over those that a meta-verifier was asked about `meta/quality` and
        `meta/unreadable` (its answer had no score, which counts as 0).
    """
    is_judgment = signals.is_judgment.bool()
    return {
        **_metrics(signals, ~is_judgment),
        **{f"judge/{key}": value for key, value in _metrics(signals, is_judgment).items()},
    }


def _metrics(signals: ScoreSignals, kind: torch.Tensor) -> dict[str, float]:
    predicted, reference = signals.predicted, signals.reference
    is_known, is_read = kind & ~reference.isnan(), kind & ~reference.isnan() & ~predicted.isnan()
    asked = kind & signals.was_asked.bool()
    # metric -> (values, mask of the evaluations that count); a metric with an empty mask is omitted below
    cells = {
        "format_rate": (signals.has_form, kind),
        "cut": (signals.is_cut, kind),
        "unscorable": (reference.isnan(), kind),
        "score_accuracy": (predicted == reference, is_known),
        "score_error": ((predicted - reference).abs(), is_read),
        "false_positive_rate": (predicted == 1, is_known & (reference == 0)),
        "meta/quality": (signals.quality, asked),
        "meta/unreadable": (signals.is_unreadable, asked),
    }
    # Row of the confusion matrix; an unreadable score is the cell `none`, so that the shares sum to 1.
    for true in ALLOWED_SCORES:
        for score in ALLOWED_SCORES:
            is_cell = (reference == true) & (predicted == score)
            cells[f"confusion/{true:g}_as_{score:g}"] = (is_cell, is_known)
        cells[f"confusion/{true:g}_as_none"] = ((reference == true) & predicted.isnan(), is_known)
    return {key: values[mask].float().mean().item() for key, (values, mask) in cells.items() if mask.any()}
