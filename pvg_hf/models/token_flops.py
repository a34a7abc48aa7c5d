"""Floating-point operations of a model per token."""

from typing import Any

from peft import PeftModel
from transformers import PreTrainedModel


def num_multiplied(model: PreTrainedModel | PeftModel) -> int:
    """Number of weights that every token is multiplied with: all except an input embedding that is only looked up."""
    embedding: Any = model.get_input_embeddings()
    head = model.get_output_embeddings()
    is_output_too = head is not None and head.weight is embedding.weight
    return model.num_parameters() - (0 if is_output_too else embedding.weight.numel())


def flops_per_token(model: PreTrainedModel | PeftModel, *, is_trained: bool = False) -> int:
    """
    Floating-point operations per token.

    They are 2 per weight for the forward pass and, if the model is trained, 2 per weight for the gradients of the
    activations and 2 per trained weight for its gradient: 6 per weight, or 4 if an adapter is all that is trained.
    Attention's quadratic part is left out, and so is what is computed again to save memory.
    """
    forward = 2 * num_multiplied(model)
    return 2 * forward + 2 * model.num_parameters(only_trainable=True) if is_trained else forward
