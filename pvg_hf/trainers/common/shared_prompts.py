"""
Trains on a group's prompt once: solutions to one prompt share a row, with a mask that hides them from each other.

The idea is Prefix Grouper's (arXiv 2506.05433). A row is the prompt without its last token, and then, for each
solution, that last token and the solution. Every token sees the prompt and the earlier tokens of its own solution at
the positions that it has in a row of its own, so that log-probabilities and gradients are those of separate rows up to
rounding.
"""

from dataclasses import dataclass
from itertools import compress
from typing import Any

import torch
from peft import PeftModel
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

# Decoders with rotary positions that pass a mask of four dimensions on to their attention.
_SHARING = frozenset({"llama", "qwen2", "qwen3", "smollm3"})

_PREFIX, _PADDING = 0, -1  # segments of a row; those of solutions are 1, 2, ...


def can_share_prompts(model: PreTrainedModel | PeftModel) -> bool:
    """Whether a model's attention allows solutions to share a row: full attention in every layer, by a given mask."""
    config = model.config.get_text_config()
    layers = set(config.to_dict().get("layer_types") or ["full_attention"])
    is_full = layers == {"full_attention"}
    return is_full and config.model_type in _SHARING and config._attn_implementation == "sdpa"


@dataclass(frozen=True)
class SharedRows:
    """
    Solutions to `num_groups` prompts, in a row of at most `width` tokens for each prompt.

    Args:
        inputs: The model's `input_ids`, `position_ids` and `shift_labels` (the next token to score, or -100), each
            `(num_groups, width)`, and `attention_mask`, `(num_groups, 1, width, width)`, true where a token sees
            another.
        places: `(rows, completion tokens)`: where in the flattened `shift_labels` each completion token is scored.
        mask: `(rows, completion tokens)`: 1 for tokens, 0 for padding.
        num_tokens: Number of tokens in the rows, without padding.
    """

    inputs: dict[str, torch.Tensor]
    places: torch.Tensor
    mask: torch.Tensor
    num_tokens: int

    def of_rows(self, values: torch.Tensor) -> torch.Tensor:
        """Return values by token, `(num_groups, width)`, as `(rows, completion tokens)`, with 0 for padding."""
        return values.flatten()[self.places] * self.mask


def share_prompts(input_ids: torch.Tensor, attention_mask: torch.Tensor, num_scored: int) -> SharedRows | None:
    """
    Join the rows of equal prompts.

    Args:
        input_ids, attention_mask: `(rows, prompt tokens + completion tokens)`: prompts are padded on the left,
            completions on the right.
        num_scored: Number of completion tokens.
    Returns: `None` if all prompts differ.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    prompts, are_tokens = input_ids[:, :-num_scored], attention_mask[:, :-num_scored].bool()
    for index, (ids, is_token) in enumerate(zip(prompts.tolist(), are_tokens.tolist(), strict=True)):
        groups.setdefault(tuple(compress(ids, is_token)), []).append(index)
    if len(groups) == len(input_ids):
        return None
    mask = attention_mask[:, -num_scored:]
    solutions = [list(compress(*row)) for row in zip(input_ids[:, -num_scored:].tolist(), mask.tolist(), strict=True)]
    rows: list[_Row] = []
    starts = [(0, 0)] * len(solutions)
    for prompt, members in groups.items():
        row = _Row(prompt)
        for member in members:
            starts[member] = (len(rows), len(row.ids))
            row.add(solutions[member])
        rows.append(row)
    ids, positions, labels, segments = (
        pad_sequence(list(map(torch.tensor, column)), batch_first=True, padding_value=padding).to(input_ids.device)
        for column, padding in (
            ([row.ids for row in rows], 0),
            ([row.positions for row in rows], 0),
            ([row.labels for row in rows], -100),
            ([row.segments for row in rows], _PADDING),
        )
    )
    width = ids.shape[1]
    sees = (segments[:, None] == segments[:, :, None]) | (segments[:, None] == _PREFIX)
    sees &= torch.ones(width, width, dtype=torch.bool, device=ids.device).tril()
    first = torch.tensor([row * width + start for row, start in starts])
    last = torch.tensor([max(len(solution), 1) - 1 for solution in solutions])  # where padding reads, too
    places = first[:, None] + torch.minimum(torch.arange(num_scored), last[:, None])
    inputs = {"input_ids": ids, "position_ids": positions, "shift_labels": labels, "attention_mask": sees[:, None]}
    return SharedRows(inputs, places.to(ids.device), mask, sum(len(row.ids) for row in rows))


class _Row:
    """A prompt without its last token, and after it the solutions, each after that token."""

    def __init__(self, prompt: tuple[int, ...]):
        self.last = prompt[-1]
        self.ids = list(prompt[:-1])
        self.positions = list(range(len(self.ids)))
        self.labels = [-100] * len(self.ids)
        self.segments = [_PREFIX] * len(self.ids)
        self.num_shared, self.num_members = len(self.ids), 0

    def add(self, solution: list[int]) -> None:
        self.num_members += 1
        self.ids += [self.last, *solution]
        self.positions += range(self.num_shared, self.num_shared + len(solution) + 1)
        self.labels += [*solution, -100]
        self.segments += [self.num_members] * (len(solution) + 1)


def put_groups_together(batches: list[dict[str, Any]], per_step: int) -> list[dict[str, Any]]:
    """
    Sort the rows of each optimiser step by their prompts, so that a group's solutions are in one micro-batch.

    Args:
        batches: Micro-batches: `prompt_ids` and other tensors whose first dimension is the rows', and numbers.
        per_step: Number of micro-batches of an optimiser step.
    """
    together: list[dict[str, Any]] = []
    for start in range(0, len(batches), per_step):
        step = batches[start : start + per_step]
        _, groups = torch.cat([batch["prompt_ids"] for batch in step]).unique(dim=0, return_inverse=True)
        by_name = {name: [batch[name] for batch in step] for name in step[0]}
        together += (
            {name: torch.cat(values)[rows] if values[0].dim() else values[0] for name, values in by_name.items()}
            for rows in groups.argsort(stable=True).split(len(step[0]["prompt_ids"]))
        )
    return together
