"""PPO's critic: which model it is, what it reads, and how it is stored."""

import copy
from collections.abc import Mapping
from pathlib import Path

import torch
from peft import PeftConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import disable_dropout_in_model

from pvg_hf.models.adapters import copy_of_body, take_over_adapter
from pvg_hf.models.score_head import classifier_of
from pvg_hf.models.sources import is_adapter, load_tokenizer, resolve_model
from pvg_hf.models.value_model import CRITIC_FOLDER, load_value_model, value_model_of_verifier, value_model_on
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.common.classifiers import add_trained_head

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
        return _check_kind(critic)
    if critic is None:
        return _critic_from_adapter(prover) if isinstance(prover, PeftModel) else _critic_from_copy(prover)
    if critic == ADAPTER:
        return _critic_from_adapter(prover)
    if critic == VERIFIER:
        return _critic_from_verifier(scorer, tokenizer)
    source = resolve_model(critic, "verifier")
    if is_adapter(source):
        raise ValueError(
            f"The critic `{critic}` is an adapter, which is a critic on its own prover's base only: go on from that prover's "
            "checkpoint (`resume_from_checkpoint`), take the critic `adapter` to start anew, or name a whole model."
        )
    check_same_tokens(load_tokenizer(source), tokenizer, f"critic `{critic}`")
    return load_value_model(source)


def _check_kind(model: PreTrainedModel | PeftModel) -> PreTrainedModel | PeftModel:
    kind = type(classifier_of(model)).__name__
    if model.config.num_labels != 1 or not kind.endswith("ForTokenClassification"):
        raise ValueError(
            f"The critic is a `{kind}` with {model.config.num_labels} labels; it must be a token classifier with one: "
            '`load_value_model("org/name")` of `pvg_hf.models.value_model` makes one of a language model.'
        )
    return model


def _critic_from_adapter(prover: PreTrainedModel | PeftModel) -> PeftModel:
    """An adapter like the prover's, and a head, on the prover's own frozen weights."""
    if not isinstance(prover, PeftModel):
        raise ValueError(
            "The critic is `adapter`, which stands on the prover's frozen base, and the prover is trained whole. Train it "
            "by an adapter (`peft_config`, in a recipe `prover.lora: {}`), or take a critic with weights of its own."
        )
    model = value_model_on(copy_of_body(prover))
    return get_peft_model(model, _critic_adapter_config(prover.peft_config[prover.active_adapter], model))


def _critic_adapter_config(peft_config: PeftConfig, model: PreTrainedModel) -> PeftConfig:
    own = add_trained_head(peft_config, model)
    own.task_type, own.inference_mode = "TOKEN_CLS", False
    return own


def _critic_from_copy(prover: PreTrainedModel) -> PreTrainedModel:
    return value_model_on(copy.deepcopy(prover).float().base_model)


def _critic_from_verifier(scorer: object, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
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


_READ = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")

_WEIGHTS = {True: "adapter_model.safetensors", False: "model.safetensors"}  # with adapters, and without


class Critic:
    """
    Says of each token of a solution what the solution will be paid from there on, knowing what stands before the token.

    Args:
        model ([`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            A decoder with one logit a token.
        forward ([`~torch.nn.Module`], *optional*):
            The same model as accelerate has prepared it, through which gradients are shared between processes.
    """

    def __init__(self, model: PreTrainedModel | PeftModel, forward: nn.Module | None = None):
        self.model = model
        self.forward = forward or model

    @property
    def trained_parameters(self) -> dict[str, nn.Parameter]:
        """By name; a frozen base is not among them."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    def values(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """
        Args:
            batch (`Mapping[str, torch.Tensor]`):
                TRL's `prompt_ids` and `prompt_mask` of shape `(B, P)`, filled up on the left, and `completion_ids` and
                `completion_mask` of shape `(B, T)`, filled up on the right.

        Returns:
            `torch.Tensor` of shape `(B, T)`, in float32: of the state before each token, the end token included. Where the
            completion's mask is 0 it means nothing.
        """
        return _read(self.forward, batch)

    @torch.no_grad()
    def judge(self, batch: Mapping[str, torch.Tensor], rows_at_once: int) -> torch.Tensor:
        """[`values`] without gradients, in parts of `rows_at_once`."""
        parts = zip(*(batch[name].split(rows_at_once) for name in _READ), strict=True)
        return torch.cat([_read(self.model, dict(zip(_READ, part, strict=True))) for part in parts])

    def save(self, folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
        """Write the weights (of a critic on the prover's base: the adapter with its head) and the tokenizer that it reads by."""
        settings = {"save_embedding_layers": False} if isinstance(self.model, PeftModel) else {}
        self.model.save_pretrained(folder / CRITIC_FOLDER, **settings)
        tokenizer.save_pretrained(folder / CRITIC_FOLDER)
        (folder / CRITIC_FOLDER / "README.md").unlink(missing_ok=True)  # PEFT's, which is an empty form

    def load(self, folder: Path) -> None:
        """
        Take over the weights of a critic of the same structure.

        Raises:
            ValueError: if `folder` holds none.
        """
        is_adapter = isinstance(self.model, PeftModel)
        file = folder / CRITIC_FOLDER / _WEIGHTS[is_adapter]
        if not file.exists():
            raise ValueError(
                f"`{folder}` holds no critic that training could go on with ({file} is missing): it was written by another "
                "trainer, or with another `critic`. Start anew, or go on from a checkpoint of this one."
            )
        if is_adapter:
            take_over_adapter(self.model, file.parent)
        else:
            self.model.load_state_dict(load_file(file))


def _read(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    ids, mask, states = compact(batch)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[..., 0]
    return logits.float().gather(1, states)


def compact(batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Prompts and completions with all filling on the right, where no decoder sees it and positions count from 0: a value then
    depends on its own solution only, whatever the others' lengths are.

    Args:
        batch (`Mapping[str, torch.Tensor]`):
            As of [`Critic.values`].

    Returns:
        `tuple[torch.Tensor, torch.Tensor, torch.Tensor]`: token ids and mask of shape `(B, L)` with `L` the longest row's
        length, and of shape `(B, T)` the places of the tokens before each of the completion's.
    """
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    prompt_lengths = batch["prompt_mask"].sum(dim=1, keepdim=True)
    num_filled = batch["prompt_mask"].shape[1] - prompt_lengths
    places = torch.arange(ids.shape[1], device=ids.device)
    moved = (places + num_filled).clamp(max=ids.shape[1] - 1)
    ids, mask = ids.gather(1, moved), mask.gather(1, moved) * (places + num_filled < ids.shape[1])
    longest = int((mask * (places + 1)).max())
    states = prompt_lengths - 1 + torch.arange(batch["completion_ids"].shape[1], device=ids.device)
    return ids[:, :longest], mask[:, :longest], states.clamp(max=longest - 1)
