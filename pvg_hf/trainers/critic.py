"""PPO's critic: what it reads, what it says of each token, and how it is kept."""

from collections.abc import Mapping
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.models.adapters import take_over_adapter
from pvg_hf.models.value_model import CRITIC_FOLDER

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
