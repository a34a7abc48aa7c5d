"""Which model becomes PPO's critic: one of its own, the verifier's body, or an adapter on the prover's base."""

import copy

import torch
from peft import PeftConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import disable_dropout_in_model

from pvg_hf.models.score_head import classifier_of
from pvg_hf.models.shared_base import copy_of_body
from pvg_hf.models.sources import is_adapter, load_tokenizer, resolve_model
from pvg_hf.models.value_model import load_value_model, value_model_of_verifier, value_model_on
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.score_head import with_trained_head

ADAPTER, VERIFIER = "adapter", "verifier"  # the critics that are no model's id


def make_value_model(
    critic: str | PreTrainedModel | PeftModel | None,
    *,
    prover: PreTrainedModel | PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    scorer: object,
    seed: int,
) -> PreTrainedModel | PeftModel:
    """
    The critic's model, whose first values are 0 unless it is a saved critic. Dropout is off: what it says of a solution must
    not differ between the epochs over a batch. Torch's generator is left as it was.

    Args:
        critic (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`], *optional*):
            `"adapter"`, `"verifier"`, a Hub id or folder, or a token classifier with one logit; by default `"adapter"` for
            a prover with adapters, and a copy of the prover's body for one that is trained whole.
        prover ([`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            As it will be trained.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            The prover's.
        scorer (`object`):
            The trainer's; `"verifier"` takes the model of a [`VerifierScorer`].
        seed (`int`):
            That an adapter's first weights are drawn with, the same on all processes.

    Raises:
        ValueError: if such a critic cannot be had, or reads other tokens than the prover writes.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = _make(critic, prover, tokenizer, scorer)
    disable_dropout_in_model(model)
    return model


def _make(critic, prover, tokenizer, scorer) -> PreTrainedModel | PeftModel:
    if isinstance(critic, PreTrainedModel | PeftModel):
        return _checked(critic)
    if critic is None:
        return _adapter_on(prover) if isinstance(prover, PeftModel) else _copy_of(prover)
    if critic == ADAPTER:
        return _adapter_on(prover)
    if critic == VERIFIER:
        return _of_verifier(scorer, tokenizer)
    source = resolve_model(critic, "verifier")
    if is_adapter(source):
        raise ValueError(
            f"The critic `{critic}` is an adapter, which is a critic on its own prover's base only: go on from that prover's "
            "checkpoint (`resume_from_checkpoint`), take the critic `adapter` to start anew, or name a whole model."
        )
    check_same_tokens(load_tokenizer(source), tokenizer, f"critic `{critic}`")
    return load_value_model(source)


def _checked(model: PreTrainedModel | PeftModel) -> PreTrainedModel | PeftModel:
    kind = type(classifier_of(model)).__name__
    if model.config.num_labels != 1 or not kind.endswith("ForTokenClassification"):
        raise ValueError(
            f"The critic is a `{kind}` with {model.config.num_labels} labels; it must be a token classifier with one: "
            '`load_value_model("org/name")` of `pvg_hf.models.value_model` makes one of a language model.'
        )
    return model


def _adapter_on(prover: PreTrainedModel | PeftModel) -> PeftModel:
    """An adapter like the prover's, and a head, on the prover's own frozen weights."""
    if not isinstance(prover, PeftModel):
        raise ValueError(
            "The critic is `adapter`, which stands on the prover's frozen base, and the prover is trained whole. Train it "
            "by an adapter (`peft_config`, in a recipe `prover.lora: {}`), or take a critic with weights of its own."
        )
    model = value_model_on(copy_of_body(prover))
    return get_peft_model(model, _like(prover.peft_config[prover.active_adapter], model))


def _like(peft_config: PeftConfig, model: PreTrainedModel) -> PeftConfig:
    own = with_trained_head(peft_config, model)
    own.task_type, own.inference_mode = "TOKEN_CLS", False
    return own


def _copy_of(prover: PreTrainedModel) -> PreTrainedModel:
    return value_model_on(copy.deepcopy(prover).float().base_model)


def _of_verifier(scorer: object, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    if not isinstance(scorer, VerifierScorer):
        raise ValueError(
            f"The critic is `verifier`, and the scorer is a {type(scorer).__name__}, of whose model nothing is known. Pass a "
            "`VerifierScorer`, or the id or folder of a model as the critic."
        )
    check_same_tokens(scorer.tokenizer, tokenizer, "verifier")
    return value_model_of_verifier(scorer.model)


def check_same_tokens(own: PreTrainedTokenizerBase, prover: PreTrainedTokenizerBase, name: str) -> None:
    """
    Raises:
        ValueError: if the critic of this name would take the prover's tokens for others.
    """
    mine, others = own.get_vocab(), prover.get_vocab()
    if mine != others:
        differing = len(mine.items() ^ others.items())
        raise ValueError(
            f"The {name} has another vocabulary ({len(mine)} tokens) than the prover ({len(others)}); {differing} entries "
            "differ, and a critic reads the prover's tokens as they are. Take a model of the prover's family, or the critic "
            "`adapter`."
        )
