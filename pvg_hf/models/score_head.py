"""The head of a sequence classifier, which maps hidden states to one score: found, drawn, trained and checked."""

import copy
from typing import Any, cast

import torch
from peft import PeftConfig, PeftModel, TaskType
from peft.utils import ModulesToSaveWrapper
from torch import nn
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from pvg_hf.models.sources import is_adapter

_REMEDY = (
    "A verifier has one logit, or two for an incorrect and a correct solution. To replace the head by a new one, load"
    " the model with `AutoModelForSequenceClassification.from_pretrained(..., num_labels=1,"
    " ignore_mismatched_sizes=True)`"
)

# Label of a correct solution, and the labels that an incorrect one may then have.
_OPPOSITES = {
    "label_1": "label_0",
    "1": "0",
    "accept": "reject",
    "accepted": "rejected",
    "chosen": "rejected",
    "correct": "incorrect wrong false not_correct",
    "good": "bad",
    "pass": "fail",
    "positive": "negative",
    "right": "wrong",
    "true": "false",
    "valid": "invalid",
    "yes": "no",
}

HEAD_STD = 0.02  # standard deviation of newly drawn weights


class PreciseLinear(nn.Linear):
    """
    A linear layer that computes in float32, even under autocast and on a body in half precision.

    bfloat16 keeps 8 significant bits: scores of one problem's solutions would tie, and most updates of the head would
    be rounded away.
    """

    @classmethod
    def of(cls, layer: nn.Linear) -> "PreciseLinear":
        """Convert a layer; its weights are converted to float32 if they had lower precision."""
        precise = cls(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
        precise.weight, precise.bias = _float32_parameter(layer.weight), _float32_parameter(layer.bias)
        return precise.train(layer.training)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            return functional.linear(hidden.to(self.weight.dtype), self.weight, self.bias)


def _float32_parameter(parameter: Any) -> Any:  # torch declares a bias as a parameter even where it is `None`
    if parameter is None or parameter.dtype.itemsize >= torch.float32.itemsize:
        return parameter
    return nn.Parameter(parameter.detach().float(), requires_grad=parameter.requires_grad)


def set_padding(model: PreTrainedModel | PeftModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """
    Set the padding token of a model's configuration to its tokenizer's, or to the end token if that has none.

    transformers' heads read the last token of a row that is not this one, so a verifier keeps the one it was trained
    with.

    Raises `ValueError` if the tokenizer has neither.
    """
    index = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    if index is None:
        raise ValueError("The tokenizer has neither a padding token nor an end token; set its `pad_token`.")
    model.config.get_text_config().pad_token_id = index


def return_raw_scores(model: PreTrainedModel | PeftModel) -> None:
    """Record in a model's configuration that its logit is a score: `pipeline` and vLLM then apply no sigmoid to it."""
    model.config.problem_type = "regression"


def score_head_modules(model: PreTrainedModel | PeftModel) -> list[str]:
    """
    List the modules with weights that a classifier adds to its backbone.

    They are `["score"]` for Llama or Qwen, `["classifier"]` for BERT and `["head", "classifier"]` for ModernBERT. The
    list is empty for a bare backbone or a language model.
    """
    classifier = classifier_of(model)
    children = dict(classifier.named_children())
    # A bare backbone has no child of this name.
    if children.pop(classifier.base_model_prefix, None) is None:
        return []
    # A language model's output layer is not a score head.
    words = classifier.get_output_embeddings()
    return [
        name for name, module in children.items() if module is not words and any(True for _ in module.parameters())
    ]


def classifier_of(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """Return the model without the wrapper of its adapter, if any."""
    return cast(PreTrainedModel, model.get_base_model()) if isinstance(model, PeftModel) else model


def keep_head_precise(model: PreTrainedModel | PeftModel) -> None:
    """Make every linear layer of the head compute in float32, with float32 weights."""
    classifier = classifier_of(model)
    for name in score_head_modules(model):
        layers = classifier.get_submodule(name).named_modules(prefix=name)
        for place, layer in list(layers):
            if type(layer) is nn.Linear:
                classifier.set_submodule(place, PreciseLinear.of(layer))


def draw_head(model: PreTrainedModel | PeftModel, seed: int) -> None:
    """
    Redraw the score head from normal(0, 0.02), seeded (Kirchner et al. 2024); biases become 0.

    Raises `ValueError` if `model` has no head.
    """
    layers = [layer for name in score_head_modules(model) for layer in _drawn_layers(model, name)]
    if not layers:
        raise ValueError(f"`{type(model).__name__}` has no score head (`score` or `classifier`) that could be drawn.")
    generator = torch.Generator().manual_seed(seed)
    for layer in layers:
        drawn = torch.normal(0.0, HEAD_STD, layer.weight.shape, generator=generator)
        with torch.no_grad():
            layer.weight.copy_(drawn)
            if layer.bias is not None:
                layer.bias.zero_()


def _drawn_layers(model: PreTrainedModel | PeftModel, name: str) -> list[nn.Linear]:
    """Return the linear layers of a head; if PEFT keeps two copies of it, those of the trained one."""
    head: Any = classifier_of(model).get_submodule(name)
    # PEFT keeps the original head and a trained copy.
    head = head.modules_to_save[cast(str, head.active_adapter)] if isinstance(head, ModulesToSaveWrapper) else head
    return [layer for layer in head.modules() if isinstance(layer, nn.Linear)]


def check_classifier_source(source: str, *, revision: str | None = None, trust_remote_code: bool = False) -> int:
    """
    Return the number of logits of a checkpoint's head: 2, or 1, also if a new head would be drawn.

    Args:
        trust_remote_code: Whether the configuration may run code from the Hub.
    Raises `ValueError` for a sequence classifier whose head cannot score solutions, and for a bare adapter.
    """
    if is_adapter(source):
        raise ValueError(
            f"`{source}` holds a PEFT adapter, not a model. Load its base, pass that and the folder to "
            "`PeftModel.from_pretrained(base, folder, is_trainable=True)`, and pass the result."
        )
    config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
    return count_logits(config) if is_sequence_classifier(config) else 1


def count_logits(config: PretrainedConfig) -> int:
    """Return 1 or 2. Raises `ValueError` for another number, and if it is unclear which of two is for "correct"."""
    if config.num_labels == 2:
        _correct_index(config)
    elif config.num_labels != 1:
        raise ValueError(f"The model has {config.num_labels} logits (`config.num_labels`). {_REMEDY}.")
    return config.num_labels


def _correct_index(config: PretrainedConfig) -> int:
    """Return which of two logits is that of correct solutions."""
    stated = {int(index): str(label) for index, label in (config.id2label or {}).items()}
    labels = {index: label.lower().replace(" ", "_") for index, label in stated.items()}
    for index, label in labels.items():
        if labels.get(1 - index) in _OPPOSITES.get(label, "").split():
            return index
    raise ValueError(
        f"The model has two logits for {list(stated.values())}, and it is unclear which is for correct"
        " solutions. Say so in its configuration: `config.id2label = {0: 'incorrect', 1: 'correct'}`, or the other way"
        " round."
    )


def subtract_logits(model: PreTrainedModel | PeftModel) -> None:
    """
    Give a classifier with two logits a single one: that of correct solutions minus the other, i.e. their log-odds.

    The last layer of the head gets the difference of its rows, so that this is exact. Other models are unchanged.

    Raises `ValueError` for another number of logits, unclear labels, or a head of another form.
    """
    if count_logits(model.config) == 1:
        return
    classifier: Any = classifier_of(model)
    correct = _correct_index(model.config)
    layers = [
        (place, layer)
        for name in score_head_modules(model)
        for place, layer in classifier.get_submodule(name).named_modules(prefix=name)
        if isinstance(layer, nn.Linear) and layer.out_features == 2
    ]
    if not layers or any("lora_" in place for place, _ in layers):
        raise ValueError(
            f"`{type(classifier).__name__}` has two logits, but no linear layer (`score` or `classifier`, without an"
            " adapter of its own) that returns them. Merge its adapter first, or use a model with one logit."
        )
    for place, layer in layers:
        single = PreciseLinear.of(layer)
        single.out_features = 1
        for name, rows in list(single.named_parameters()):
            row = rows.detach()[correct] - rows.detach()[1 - correct]
            setattr(single, name, nn.Parameter(row[None], requires_grad=rows.requires_grad))
        classifier.set_submodule(place, single)
    model.config.num_labels = classifier.num_labels = 1


def is_sequence_classifier(config: PretrainedConfig) -> bool:
    """Whether a checkpoint is a sequence classifier, with a trained head."""
    return any(name.endswith("ForSequenceClassification") for name in config.architectures or ())


def empty_classifier(source: str, *, revision: str | None = None, trust_remote_code: bool = False) -> PreTrainedModel:
    """Return the classifier that `source` is loaded as, without its weights (on the `meta` device)."""
    config = AutoConfig.from_pretrained(source, revision=revision, num_labels=1, trust_remote_code=trust_remote_code)
    with torch.device("meta"):
        return AutoModelForSequenceClassification.from_config(config, trust_remote_code=trust_remote_code)


def check_classifier(model: PreTrainedModel | PeftModel) -> None:
    """Raise `ValueError` if a model has no head."""
    if not score_head_modules(model):
        raise ValueError(
            f"`{type(model).__name__}` has no classification head; load the model with "
            "`AutoModelForSequenceClassification.from_pretrained(..., num_labels=1)`."
        )


def add_trained_head(peft_config: PeftConfig, model: PreTrainedModel | PeftModel) -> PeftConfig:
    """
    Return a copy of `peft_config` that also trains and saves the whole head of `model`.

    Raises `ValueError` if this kind of adapter does not support it, or is for another kind of model.
    """
    heads = score_head_modules(model)
    if heads and peft_config.task_type not in (None, TaskType.SEQ_CLS):
        raise ValueError(
            f"The adapter has `task_type={peft_config.task_type}`, and the model is a sequence classifier: leave it"
            ' out, or set `task_type="SEQ_CLS"`.'
        )
    if "modules_to_save" not in vars(peft_config):
        raise ValueError(
            f"`{type(peft_config).__name__}` cannot train a head in addition to the adapter (it has no"
            " `modules_to_save`), so that the scores would stay random; use e.g. `LoraConfig`."
        )
    own: Any = copy.deepcopy(peft_config)
    saved = list(own.modules_to_save or ())
    own.modules_to_save = saved + [name for name in heads if name not in saved]
    return own


def is_head_trained(model: PreTrainedModel | PeftModel) -> bool:
    """Whether any weight of the head is trained."""
    classifier = classifier_of(model)
    return any(
        parameter.requires_grad
        for name in score_head_modules(model)
        for parameter in classifier.get_submodule(name).parameters()
    )
