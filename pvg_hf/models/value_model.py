"""Critics: token classifiers with one logit, which predicts the remaining return of a solution."""

import copy
from pathlib import Path

import torch
from peft import PeftModel
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification, PretrainedConfig, PreTrainedModel

from pvg_hf.models.quantization import is_quantized
from pvg_hf.models.score_head import PreciseLinear, keep_head_precise, score_head_modules
from pvg_hf.models.sources import LOADING, SAFELY, check_weight_files


def load_value_model(source: str | Path, *, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """
    Load a critic from the Hub or a folder.

    A saved critic keeps its head. Any other checkpoint, such as a language model or a verifier, gets a new head.

    Raises `ValueError` if the architecture has no token classifier or is not causal, or the weights are not
        safetensors.
    """
    check_weight_files(source)
    if not has_value_head(AutoConfig.from_pretrained(source, trust_remote_code=False)):
        with LOADING:
            return value_model_on(AutoModel.from_pretrained(source, dtype=dtype, **SAFELY))
    with LOADING:
        model = AutoModelForTokenClassification.from_pretrained(source, num_labels=1, dtype=dtype, **SAFELY)
    keep_head_precise(model)
    return model


def has_value_head(config: PretrainedConfig) -> bool:
    """Whether a checkpoint is that of a critic."""
    names = config.architectures or ()
    return config.num_labels == 1 and any(name.endswith("ForTokenClassification") for name in names)


def value_model_on(body: PreTrainedModel) -> PreTrainedModel:
    """
    Make a critic from a decoder without its head, and a new head in float32 that predicts 0.

    The first advantages are then the returns of the solutions, without the noise of a randomly drawn head.

    Args:
        body: The decoder, such as `LlamaModel`. It becomes part of the critic.
    Raises `ValueError` if the architecture has no token classifier or is not causal.
    """
    _check_causal(body)
    config = copy.deepcopy(body.config)
    config.num_labels = 1
    with torch.device("meta"):  # no memory for weights that are replaced below
        model = AutoModelForTokenClassification.from_config(config, trust_remote_code=False)
    model.set_submodule(model.base_model_prefix, body)
    for name in score_head_modules(model):
        for place, layer in list(model.get_submodule(name).named_modules(prefix=name)):
            if isinstance(layer, nn.Linear):
                model.set_submodule(place, _zeros_like(layer, body.device))
    return model.eval()  # the mode of a model after `from_pretrained`


def value_model_of_verifier(verifier: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """
    Make a critic from a copy of a verifier's body, with its adapter merged, in float32.

    Raises `ValueError` if the verifier is in 4 bits, so that it cannot be trained in full.
    """
    if is_quantized(verifier):
        raise ValueError(
            "The verifier is held in 4 bits, so that its weights cannot be trained as a critic. Use the critic"
            " `adapter`, or name a model."
        )
    own = copy.deepcopy(verifier).float()
    merged = own.merge_and_unload() if isinstance(own, PeftModel) else own
    return value_model_on(merged.base_model.requires_grad_(True))


def _zeros_like(layer: nn.Linear, device: torch.device) -> PreciseLinear:
    head = PreciseLinear(layer.in_features, layer.out_features, bias=layer.bias is not None, device=device)
    for parameter in head.parameters():
        nn.init.zeros_(parameter)
    return head


@torch.no_grad()
def _check_causal(body: PreTrainedModel) -> None:
    """Check that the output at a token is independent of later tokens, which are not written yet when it is needed."""
    ids = torch.tensor([[0, 1], [0, 2]], device=body.device)
    was_training = body.training
    hidden = body.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[:, 0]
    body.train(was_training)
    if not torch.allclose(hidden[0], hidden[1], rtol=1e-3, atol=1e-3):
        raise ValueError(
            f"`{type(body).__name__}` attends to later tokens, so that it cannot be a critic; use a decoder, such as"
            " the prover itself or a smaller model of its family."
        )
