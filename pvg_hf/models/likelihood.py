"""Lets a causal language model score solutions by their mean log-probability, as a classifier with one logit does."""

from functools import cache
from typing import Any, TypeVar

import torch
from peft import PeftModel
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
from trl.trainer.utils import selective_log_softmax

from pvg_hf.models.score_head import classifier_of

Model = TypeVar("Model", bound=PreTrainedModel)


class LikelihoodScore(nn.Module):
    """
    Mixin of a causal language model whose output is a score of a solution in place of logits over the vocabulary.

    The score is the mean log-probability of the solution's tokens after the problem, times `likelihood_scale`, plus
    `likelihood_bias`: the length-normalised reward of SimPO (Meng et al. 2024, 2405.14734), which needs no reference
    model. It is at most `likelihood_bias`.

    A row of token ids is a problem, the mark `solution_mark`, and a solution with its end token. The first mark behind
    the first place is removed before the model reads the row, so that the mark only says where the solution begins.
    """

    likelihood_scale: float
    likelihood_bias: float
    solution_mark: int

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **kwargs) -> SequenceClassifierOutput:
        """
        Score solutions.

        Args:
            input_ids: shape `(num_rows, longest)`. Token ids, padded on the right.
            attention_mask: shape `(num_rows, longest)`. 1 for a token, 0 for padding.
        Returns: its `logits`, of shape `(num_rows, 1)`, are the scores in float32.
        Raises `ValueError` for a row without a mark, or without a token after it.
        """
        begins = self._find_solutions(input_ids)
        places = torch.arange(input_ids.shape[1] - 1, device=input_ids.device)
        without_mark = places + (places >= begins[:, None]).long()
        ids, mask = input_ids.gather(1, without_mark), attention_mask.gather(1, without_mark)
        first = int(begins.min())
        # The logits at a place predict the next token: those from the place before the first solution are needed.
        num_kept = ids.shape[1] - first + 1
        outputs = super().forward(input_ids=ids, attention_mask=mask, logits_to_keep=num_kept, **kwargs)
        logprobs = selective_log_softmax(outputs.logits[:, -num_kept:-1].float(), ids[:, first:])
        is_solution = mask[:, first:].bool() & (places[first:] >= begins[:, None])
        lengths = is_solution.sum(dim=1)
        if not lengths.all():
            raise ValueError("A solution without tokens has no likelihood; end every input with the end token.")
        scores = self.likelihood_scale * (logprobs * is_solution).sum(dim=1) / lengths
        return SequenceClassifierOutput(logits=scores[:, None] + self.likelihood_bias)

    def _find_solutions(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return the place of each row's mark, shape `(num_rows,)`. A first token may be the mark's token, too."""
        is_mark = input_ids[:, 1:] == self.solution_mark
        if not is_mark.any(dim=1).all():
            raise ValueError(
                f"An input has no token {self.solution_mark} between problem and solution. Make the token ids by "
                "`VerifierInput.encode`, with its `likelihood_scale`."
            )
        return 1 + is_mark.int().argmax(dim=1)


def score_by_likelihood(model: Model, *, scale: float, mark: int, bias: float = 0.0) -> Model:
    """
    Make a causal language model return scores of solutions, see [`LikelihoodScore`].

    Its weights, and what `save_pretrained` writes, stay those of the language model.

    Args:
        model: A causal language model; it is changed in place.
        mark: Id of the token before a solution.
    """
    scoring: Any = model
    scoring.__class__ = _scoring_class(scoring.__class__)
    scoring.likelihood_scale, scoring.likelihood_bias, scoring.solution_mark = scale, bias, mark
    model.config.num_labels = 1  # the number of outputs, as for a classifier
    return model


def scores_by_likelihood(model: PreTrainedModel | PeftModel) -> bool:
    """Whether a verifier's score is a likelihood, and not the output of a head."""
    return isinstance(classifier_of(model), LikelihoodScore)


@cache
def _scoring_class(kind: type[PreTrainedModel]) -> type[PreTrainedModel]:
    # `save_pretrained` writes the name of the class: it must be the language model's own.
    return type(kind.__name__, (LikelihoodScore, kind), {"__module__": kind.__module__})
