"""
Scores token ids with a classifier; the common prefix of a problem's inputs is computed once if the architecture
allows.
"""

from collections.abc import Sequence
from typing import Any

import torch
from peft import PeftModel
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from pvg_hf.models.likelihood import scores_by_likelihood
from pvg_hf.scoring.batching import Group, TokenBudget, group_by_beginning

# Decoders whose classifier can continue from a key-value cache and reads the last token that is not padding.
SHARING = frozenset({"gemma", "llama", "mistral", "phi3", "qwen2", "qwen3", "smollm3"})


class Reader:
    """
    Scores token ids with a classifier, in batches.

    Args:
        model: A sequence classifier with one logit. Rows are padded on the right with the padding token of its
            configuration, by which a head finds their last tokens.
        shares_beginnings: Whether to compute the common prefix of a problem's inputs once, if the architecture allows
            it.
    """

    def __init__(self, model: PreTrainedModel | PeftModel, budget: TokenBudget, *, shares_beginnings: bool = True):
        self.model = model
        self.pad_token_id = model.config.get_text_config().pad_token_id
        self.budget = budget
        self.shares_beginnings = shares_beginnings and can_share(model)

    @torch.inference_mode()
    def read(self, inputs: Sequence[list[int]], problems: Sequence[str]) -> list[float]:
        """Score the inputs."""
        everything = list(range(len(inputs)))
        groups, alone = group_by_beginning(inputs, problems) if self.shares_beginnings else ([], everything)
        scores: dict[int, float] = {}
        for batch, found in self.budget.run(
            [len(inputs[index]) for index in alone],
            lambda batch: self._read_whole([inputs[alone[place]] for place in batch]),
        ):
            scores.update(zip([alone[place] for place in batch], found, strict=True))
        for _, found_by_index in self.budget.run(
            [group.num_shared for group in groups],
            lambda batch: self._read_groups(inputs, [groups[place] for place in batch]),
        ):
            scores.update(found_by_index)
        return [scores[index] for index in everything]

    def _read_whole(self, inputs: list[list[int]]) -> list[float]:
        ids, mask = self._pad(inputs)
        return self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, 0].float().tolist()

    def _read_groups(self, inputs: Sequence[list[int]], groups: list[Group]) -> dict[int, float]:
        """Return the scores of all members by index."""
        beginning = Beginnings(self, [inputs[group.members[0]][: group.num_shared] for group in groups])
        members = [(place, index) for place, group in enumerate(groups) for index in group.members]
        own = [inputs[index][groups[place].num_shared :] for place, index in members]
        scores: dict[int, float] = {}
        for batch, found in self.budget.run(
            [beginning.width + len(ids) for ids in own],
            lambda batch: beginning.continue_from([members[row][0] for row in batch], [own[row] for row in batch]),
        ):
            scores.update(zip([members[row][1] for row in batch], found, strict=True))
        return scores

    def _pad(self, rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids and mask, each of shape `(rows, longest)`, padded on the right."""
        tensors = [torch.tensor(row) for row in rows]
        ids = pad_sequence(tensors, batch_first=True, padding_value=self.pad_token_id)
        mask = pad_sequence([torch.ones_like(row) for row in tensors], batch_first=True)
        return ids.to(self.model.device), mask.to(self.model.device)


class Beginnings:
    """
    Prefixes of several inputs, computed once and cached.

    Args:
        rows: Token ids of each prefix.
    """

    def __init__(self, reader: Reader, rows: list[list[int]]):
        self._reader = reader
        self._cache = DynamicCache(config=reader.model.config)
        ids, self._mask = reader._pad(rows)
        reader.model(input_ids=ids, attention_mask=self._mask, past_key_values=self._cache, use_cache=True)

    @property
    def width(self) -> int:
        return self._mask.shape[1]

    def continue_from(self, places: list[int], rows: list[list[int]]) -> list[float]:
        """Score inputs that continue the prefixes at `places` with the token ids of `rows`."""
        chosen = torch.tensor(places, device=self._mask.device)
        begun = self._mask[chosen]  # (rows, width)
        ids, mask = self._reader._pad(rows)
        layers: list[Any] = self._cache.layers  # all with keys and values, see `can_share`
        cache = DynamicCache([(layer.keys[chosen], layer.values[chosen]) for layer in layers])
        logits = self._reader.model(
            input_ids=ids,
            attention_mask=torch.cat([begun, mask], dim=1),
            # Positions count the tokens that the mask shows: padding between a prefix and its continuation has none.
            position_ids=begun.sum(-1, keepdim=True) + torch.arange(ids.shape[1], device=ids.device),
            past_key_values=cache,
            use_cache=True,
        ).logits
        return logits[:, 0].float().tolist()


def can_share(model: PreTrainedModel | PeftModel) -> bool:
    """Whether a classifier can continue from the cache of a prefix: a known decoder without sliding windows."""
    config = model.config.get_text_config()
    if config.model_type not in SHARING or scores_by_likelihood(model):
        return False
    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)
