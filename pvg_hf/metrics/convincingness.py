"""Completeness, soundness and the ROC curve as a module of `evaluate`."""

import datasets
import evaluate

from pvg_hf.evaluation.roc import summarize_scores

DESCRIPTION = """\
How convincing solutions are to a verifier: completeness and soundness at a threshold, Youden J, their geometric \
mean, and the area and partial area under the ROC curve."""

INPUTS = """\
Args:
    predictions (`list[float]`): verifier scores.
    references (`list[int]`): 1 for a correct solution, 0 for an incorrect one.
    threshold (`float`, defaults to 0.0): a solution is accepted if its score is at least this.
    max_fpr (`float`, defaults to 0.1): false positive rate up to which the partial area is taken.
Returns:
    completeness, soundness, youden_j, g_mean, auc, partial_auc (`float`): see `pvg_hf.evaluation.roc`.
"""


class Convincingness(evaluate.Metric):
    """Wraps [`~pvg_hf.evaluation.roc.summarize_scores`]."""

    def _info(self) -> evaluate.MetricInfo:
        features = datasets.Features({"predictions": datasets.Value("float64"), "references": datasets.Value("int32")})
        return evaluate.MetricInfo(description=DESCRIPTION, citation="", inputs_description=INPUTS, features=features)

    def _compute(
        self, predictions, references, threshold: float = 0.0, max_fpr: float = 0.1
    ) -> dict[str, float | None]:
        return summarize_scores(predictions, references, threshold, max_fpr=max_fpr)
