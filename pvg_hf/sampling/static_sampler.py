"""Samples on a GPU with transformers' `generate`, a static cache and a compiled forward pass."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria

from pvg_hf.sampling.drawing import draw_tokens, pad_left
from pvg_hf.sampling.sampler import Sampler

logger = logging.getLogger(__name__)

# A call of `generate` ends when this share of its rows has ended: the others continue together in a later call. Half of
# the rows is where the time of GSM8K's solutions by a model of 0.5 B is shortest, by benchmarks/generation.py --lengths.
ENDED_SHARE = 0.5
WIDTH_STEP = 64  # prompts are padded to multiples of it, so that few shapes are compiled


@dataclass
class _Row:
    """A completion that is being written."""

    index: int
    prompt: list[int]
    uniforms: torch.Tensor  # (max_new_tokens,)
    tokens: list[int] = field(default_factory=list)

    @property
    def text(self) -> list[int]:
        return self.prompt + self.tokens


class UniformDraw(LogitsProcessor):
    """
    Leaves one token per row: the one that the row's uniform number selects.

    `generate` with `do_sample=False` then takes this token, so that a row's draws depend on its own numbers only.

    Args:
        uniforms (`torch.Tensor` of shape `(rows, steps)`):
            Uniform random numbers in [0, 1) of the next steps.
        width (`int`):
            Tokens of the padded prompts.
        temperature (`float`):
            Sampling temperature, above 0.
    """

    def __init__(self, uniforms: torch.Tensor, width: int, temperature: float):
        self.uniforms, self.width, self.temperature = uniforms, width, temperature

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        # `generate` may take a step too many before it sees that all rows have ended.
        step = min(input_ids.shape[1] - self.width, self.uniforms.shape[1] - 1)
        drawn = draw_tokens(scores / self.temperature, self.uniforms[:, step])
        return torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)


class ShareEnded(StoppingCriteria):
    """
    Ends a call when a share of its rows has ended, by an end token or by their maximum length.

    Args:
        share (`float`):
            In (0, 1].
        room (`torch.Tensor` of shape `(rows,)`):
            Tokens that each row may still have.
        end_ids (`torch.Tensor`):
            Tokens that end a row.
        width (`int`):
            Tokens of the padded prompts.
    """

    def __init__(self, share: float, room: torch.Tensor, end_ids: torch.Tensor, width: int):
        self.share, self.room, self.end_ids, self.width = share, room, end_ids, width
        self.is_ended = torch.zeros_like(room, dtype=torch.bool)

    def __call__(self, input_ids: torch.Tensor, scores, **kwargs) -> torch.Tensor:
        self.is_ended |= torch.isin(input_ids[:, -1], self.end_ids) | (self.room <= input_ids.shape[1] - self.width)
        return (self.is_ended.float().mean() >= self.share).expand(len(input_ids))


class StaticSampler(Sampler):
    """
    Samples with transformers' `generate`, a static cache and, on a GPU, a compiled forward pass.

    Draws depend on a row's own uniform numbers, as those of [`Sampler`], up to rounding. All calls have the same number
    of rows, and prompts are padded to few lengths, so that compilation happens once or twice. When half of the rows of
    a call have ended, the others wait for the next call, with what they have written as part of their prompts.
    """

    is_compiled = True
    max_rows = 256

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> list[list[int]]:
        fresh = [_Row(index, list(ids), uniforms[index]) for index, ids in enumerate(rows)]
        fresh.sort(key=lambda row: len(row.prompt))
        at_once, started, ended = self._rows_at_once(fresh), [], []
        was_training = self.model.training
        self.model.eval()
        try:
            while fresh or started:
                source = started if len(started) >= at_once or not fresh else fresh
                batch, rest = source[:at_once], source[at_once:]
                fresh, started = (rest, started) if source is fresh else (fresh, rest)
                self._continue(batch, at_once, share=ENDED_SHARE if fresh or started else 1.0)
                for row in batch:
                    (ended if self._is_ended(row) else started).append(row)
                started.sort(key=lambda row: len(row.text))
        finally:
            self.model.train(was_training)
        return [row.tokens for row in sorted(ended, key=lambda row: row.index)]

    def _is_ended(self, row: _Row) -> bool:
        return len(row.tokens) == self.max_new_tokens or row.tokens[-1] in self.end_ids

    def _rows_at_once(self, rows: Sequence[_Row]) -> int:
        """Rows of each call: the largest power of two that fits in memory, no more than are needed."""
        needed = 1 << max(0, len(rows) - 1).bit_length()
        longest = max((len(row.prompt) for row in rows), default=0) + self.max_new_tokens
        return min(needed, self.max_rows)

    def _continue(self, batch: list[_Row], num_rows: int, share: float) -> None:
        """Write on at `batch` until a share of it has ended, in a call with `num_rows` rows."""
        device = self.model.device
        padded = batch + batch[-1:] * (num_rows - len(batch))
        ids, mask = pad_left([row.text for row in padded], device, multiple=WIDTH_STEP)
        width, starts = ids.shape[1], [len(row.tokens) for row in padded]
        steps = self.max_new_tokens - min(starts)
        places = torch.tensor(starts)[:, None] + torch.arange(steps)  # (rows, steps)
        uniforms = torch.stack([row.uniforms for row in padded]).gather(1, places.clamp(max=self.max_new_tokens - 1))
        room = (self.max_new_tokens - torch.tensor(starts)).to(device)
        room[len(batch) :] = 0  # rows that only fill the call have ended
        share = min(1.0, (share * len(batch) + num_rows - len(batch)) / num_rows)
        written = self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=self._settings(steps, width),
            logits_processor=[UniformDraw(uniforms.to(device), width, self.temperature)],
            stopping_criteria=[ShareEnded(share, room, torch.tensor(self.end_ids, device=device), width)],
        )[:, width:]
        for row, tokens in zip(batch, written.tolist(), strict=False):
            tokens = tokens[: self.max_new_tokens - len(row.tokens)]
            ends = [place for place, token in enumerate(tokens) if token in self.end_ids]
            row.tokens += tokens[: ends[0] + 1] if ends else tokens

    def _settings(self, steps: int, width: int) -> GenerationConfig:
        return GenerationConfig(
            do_sample=False,
            max_new_tokens=steps,
            eos_token_id=self.end_ids,
            pad_token_id=self.end_ids[0] if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id,
            cache_implementation="static",
            max_cache_len=width + self.max_new_tokens,
            disable_compile=not self.is_compiled,
        )
