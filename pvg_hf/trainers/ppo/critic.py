"""PPO's critic: creating its model, computing values, saving and loading."""

import copy
from collections.abc import Mapping
from pathlib import Path

import torch
from peft import PeftConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import disable_dropout_in_model

from pvg_hf.core.disk_names import CRITIC_FOLDER
from pvg_hf.models.adapters import copy_of_body, load_adapter_weights
from pvg_hf.models.score_head import add_trained_head, classifier_of
from pvg_hf.models.sources import is_adapter, load_tokenizer, resolve_model
from pvg_hf.models.value_model import load_value_model, value_model_of_verifier, value_model_on
from pvg_hf.scoring import VerifierScorer

ADAPTER, VERIFIER = "adapter", "verifier"  # names of critics that are not the id of a model


def make_value_model(
    critic: str | PreTrainedModel | PeftModel | None,
    *,
    prover: PreTrainedModel | PeftModel,
    tokenizer: PreTrainedTokenizerBase,
    scorer: object,
    seed: int,
) -> PreTrainedModel | PeftModel:
    """
    Make the critic's model. Its first values are 0 unless it is a saved critic.

    Dropout is off, because its values must not differ between the epochs over a batch. The state of torch's generator
    is restored.

    Args:
        critic: `"adapter"`, `"verifier"`, a Hub id or folder, or a token classifier with one logit. By default
            `"adapter"` for a prover with adapters, and a copy of the prover's body for a fully fine-tuned one.
        scorer: The trainer's scorer; for `"verifier"`, a [`VerifierScorer`] whose model is copied.
        seed: Seed of an adapter's initial weights, the same on all processes.
    Raises `ValueError` if the critic cannot be made, or its vocabulary differs from the prover's.
    """
    # Making the critic must not change the draws of the training.
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
            f"The critic `{critic}` is an adapter, which only works on its own prover's base: resume from that"
            " prover's checkpoint (`resume_from_checkpoint`), use the critic `adapter` to start again, or name a full"
            " model."
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
    """Make a critic from an adapter like the prover's, and a head, on the prover's own frozen weights."""
    if not isinstance(prover, PeftModel):
        raise ValueError(
            '`critic="adapter"` shares the prover\'s frozen base, but the prover is fully fine-tuned. Train it with an'
            " adapter (`peft_config`, in a recipe `prover.lora: {}`), or use a critic with its own weights."
        )
    model = value_model_on(copy_of_body(prover))
    return get_peft_model(model, _critic_adapter_config(prover.peft_config[prover.active_adapter], model))


def _critic_adapter_config(peft_config: PeftConfig, model: PreTrainedModel) -> PeftConfig:
    of_any_model = copy.copy(peft_config)
    of_any_model.task_type = None
    own = add_trained_head(of_any_model, model)
    own.task_type, own.inference_mode = "TOKEN_CLS", False
    return own


def _critic_from_copy(prover: PreTrainedModel) -> PreTrainedModel:
    return value_model_on(copy.deepcopy(prover).float().base_model)


def _critic_from_verifier(scorer: object, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    if not isinstance(scorer, VerifierScorer):
        raise ValueError(
            f"The critic is `verifier`, but the scorer is a {type(scorer).__name__}, whose model is unknown. Pass a "
            "`VerifierScorer`, or the id or folder of a model as the critic."
        )
    check_same_tokens(scorer.tokenizer, tokenizer, "verifier")
    return value_model_of_verifier(scorer.model)


def check_same_tokens(own: PreTrainedTokenizerBase, prover: PreTrainedTokenizerBase, name: str) -> None:
    """Check that a critic has the prover's vocabulary."""
    mine, others = own.get_vocab(), prover.get_vocab()
    if mine != others:
        differing = len(mine.items() ^ others.items())
        raise ValueError(
            f"The {name} has another vocabulary ({len(mine)} tokens) than the prover ({len(others)}); {differing}"
            " entries differ, and a critic reads the prover's token ids. Use a model of the prover's family, or the"
            " critic `adapter`."
        )


_READ = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")

_WEIGHTS = {True: "adapter_model.safetensors", False: "model.safetensors"}  # by whether the critic has adapters


class Critic:
    """
    Estimates each token's remaining return from the tokens before it.

    Args:
        forward: The same model as prepared by accelerate, which synchronises gradients between processes.
    """

    def __init__(self, model: PreTrainedModel | PeftModel, forward: nn.Module | None = None):
        self.model = model
        self.forward = forward or model

    @property
    def trained_parameters(self) -> dict[str, nn.Parameter]:
        """The trained weights by name, without a frozen base."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    def values(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """
        Compute the values of a batch.

        Args:
            batch: TRL's `prompt_ids` and `prompt_mask` of shape `(B, P)`, padded on the left, and `completion_ids` and
                `completion_mask` of shape `(B, T)`, padded on the right.
        Returns: `torch.Tensor` of shape `(B, T)`, in float32: values of the state before each token, including the end
            token. Where the completion's mask is 0, they are meaningless.
        """
        return _read(self.forward, batch)

    @torch.no_grad()
    def judge(self, batch: Mapping[str, torch.Tensor], rows_at_once: int) -> torch.Tensor:
        """Compute [`values`] without gradients, `rows_at_once` rows at a time."""
        parts = zip(*(batch[name].split(rows_at_once) for name in _READ), strict=True)
        return torch.cat([_read(self.model, dict(zip(_READ, part, strict=True))) for part in parts])

    def save(self, folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
        """Save the weights (for a critic on the prover's base: the adapter with its head) and the tokenizer."""
        if isinstance(self.model, PeftModel):
            self.model.save_pretrained(str(folder / CRITIC_FOLDER), save_embedding_layers=False)
        else:
            self.model.save_pretrained(folder / CRITIC_FOLDER)
        tokenizer.save_pretrained(folder / CRITIC_FOLDER)
        (folder / CRITIC_FOLDER / "README.md").unlink(missing_ok=True)  # PEFT's card is an empty form

    def load(self, folder: Path) -> None:
        """Load the weights of a critic with the same structure."""
        file = folder / CRITIC_FOLDER / _WEIGHTS[isinstance(self.model, PeftModel)]
        if not file.exists():
            raise ValueError(
                f"`{folder}` has no critic to resume from ({file} is missing): it was written by another trainer, or"
                " with another `critic`. Start again, or resume from a checkpoint of this trainer."
            )
        if isinstance(self.model, PeftModel):
            load_adapter_weights(self.model, file.parent)
        else:
            self.model.load_state_dict(load_file(file))


def _read(model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    ids, mask, states = compact(batch)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[..., 0]
    return logits.float().gather(1, states)


def compact(batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Join prompts and completions, with all padding on the right.

    No decoder attends to padding there, and positions count from 0. A value then depends on its own solution only,
    whatever the lengths of the others are.

    Args:
        batch: Batch as for [`Critic.values`].
    Returns: token ids and mask of shape `(B, L)`, where `L` is the length of the longest row, and of shape `(B, T)`
        the position of the token before each token of the completion.
    """
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    prompt_lengths = batch["prompt_mask"].sum(dim=1, keepdim=True)
    # Shift each row left by its prompt's padding.
    num_filled = batch["prompt_mask"].shape[1] - prompt_lengths
    places = torch.arange(ids.shape[1], device=ids.device)
    moved = (places + num_filled).clamp(max=ids.shape[1] - 1)
    ids, mask = ids.gather(1, moved), mask.gather(1, moved) * (places + num_filled < ids.shape[1])
    longest = int((mask * (places + 1)).max())
    states = prompt_lengths - 1 + torch.arange(batch["completion_ids"].shape[1], device=ids.device)
    return ids[:, :longest], mask[:, :longest], states.clamp(max=longest - 1)
