"""Samples solutions with a stream of random numbers per row, so that a draw does not depend on its company."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sample:
    """
    Args:
        text (`str`):
            The solution, without special tokens.
        num_tokens (`int`):
            Tokens drawn, the end token included.
        is_truncated (`bool`):
            Whether the end token was not reached.
    """

    text: str
    num_tokens: int
    is_truncated: bool


class Sampler:
    """
    Draws solutions from a causal language model by inverting the cumulative distribution at each row's own uniform
    numbers. A problem's samples share the computation of its prompt, and finished rows leave the batch.

    Args:
        model ([`~transformers.PreTrainedModel`]):
            The prover. Its mode is left as it was found.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Its tokenizer.
        max_new_tokens (`int`):
            Longest solution, in tokens.
        temperature (`float`, defaults to 1.0):
            Above 0.
        prompts_per_batch (`int`, defaults to 32):
            Prompts sampled together; fewer once memory has run out.

    Raises:
        ValueError: for a setting outside its range, or a prover without an end token.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        prompts_per_batch: int = 32,
    ):
        if not (temperature > 0 and min(max_new_tokens, prompts_per_batch) >= 1):
            raise ValueError(
                "`temperature` must be above 0, `max_new_tokens` and `prompts_per_batch` at least 1; got "
                f"{temperature}, {max_new_tokens} and {prompts_per_batch}."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        self.temperature = temperature
        self.prompts_per_batch = prompts_per_batch
        self._prompts_at_once = prompts_per_batch  # fewer once memory has run out
        self._end_ids = torch.tensor(_end_token_ids(model, tokenizer), device=model.device)

    def batches(self, prompts: Sequence[str]) -> list[list[int]]:
        """Indices of `prompts` in batches of like length; they depend on nothing but the prompts."""
        lengths = [len(ids) for ids in self.tokenizer(list(prompts))["input_ids"]] if prompts else []
        order = sorted(range(len(prompts)), key=lambda index: (lengths[index], index))
        return [
            order[start : start + self.prompts_per_batch] for start in range(0, len(order), self.prompts_per_batch)
        ]

    def sample(self, prompts: Sequence[str], rngs: Sequence[Sequence[np.random.Generator]]) -> list[list[Sample]]:
        """
        Args:
            prompts (`Sequence[str]`):
                Rendered prompts, one batch.
            rngs (`Sequence[Sequence[Generator]]`):
                For each prompt, a generator for each sample; every prompt has the same number.

        Returns:
            `list[list[Sample]]`: samples per prompt.

        Raises:
            ValueError: if a prompt has no generators, or another number of them than the others.
        """
        if len(rngs) != len(prompts) or len({len(row) for row in rngs}) != 1:
            raise ValueError(
                f"{len(prompts)} prompts came with the numbers of generators {[len(row) for row in rngs]}; every prompt "
                "needs the same number."
            )
        uniforms = np.stack([rng.random(self.max_new_tokens) for row in rngs for rng in row])  # (rows, new tokens)
        was_training = self.model.training
        self.model.eval()
        try:
            tokens = self._draw_in_parts(prompts, len(rngs[0]), torch.from_numpy(uniforms))
        finally:
            self.model.train(was_training)
        samples = [self._read(row) for row in tokens]
        return [samples[start : start + len(rngs[0])] for start in range(0, len(samples), len(rngs[0]))]

    def _draw_in_parts(self, prompts: Sequence[str], num_samples: int, uniforms: torch.Tensor) -> list[list[int]]:
        """All at once, unless that does not fit in memory: then, from here on, as many prompts as do."""
        tokens: list[list[int]] = []
        start = 0
        while start < len(prompts):
            part = slice(start, min(start + self._prompts_at_once, len(prompts)))
            try:
                drawn = self._draw(prompts[part], num_samples, uniforms[start * num_samples : part.stop * num_samples])
            except torch.OutOfMemoryError:
                if part.stop == start + 1:
                    raise
                drawn = None
            if drawn is None:  # outside of the handler, whose traceback holds the tensors
                self._halve(part.stop - start)
                continue
            tokens += drawn
            start = part.stop
        return tokens

    def _halve(self, num_prompts: int) -> None:
        self._prompts_at_once = num_prompts // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning(
            "%d prompts at once do not fit in memory; from here on it is %d.", num_prompts, self._prompts_at_once
        )

    @torch.inference_mode()
    def _draw(self, prompts: Sequence[str], num_samples: int, uniforms: torch.Tensor) -> list[list[int]]:
        device = self.model.device
        inputs = self.tokenizer(list(prompts), padding=True, padding_side="left", return_tensors="pt").to(device)
        cache = DynamicCache(config=self.model.config)
        mask = inputs["attention_mask"]
        logits = self._forward(inputs["input_ids"], mask, (mask.cumsum(-1) - 1).clamp(min=0), cache)
        cache.batch_repeat_interleave(num_samples)
        logits, mask = (tensor.repeat_interleave(num_samples, dim=0) for tensor in (logits, mask))
        alive = torch.arange(len(logits), device=device)  # rows of the batch that are still being written
        tokens: list[list[int]] = [[] for _ in range(len(logits))]
        for place in range(self.max_new_tokens):
            drawn = draw_tokens(logits / self.temperature, uniforms[alive.cpu(), place].to(device))
            for row, token in zip(alive.tolist(), drawn.tolist(), strict=True):
                tokens[row].append(token)
            going_on = ~torch.isin(drawn, self._end_ids)
            if place + 1 == self.max_new_tokens or not going_on.any():
                break
            if not going_on.all():
                kept = going_on.nonzero()[:, 0]
                cache.batch_select_indices(kept)
                alive, drawn, mask = alive[kept], drawn[kept], mask[kept]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            logits = self._forward(drawn[:, None], mask, mask.sum(-1, keepdim=True) - 1, cache)
        return tokens

    def _forward(
        self, input_ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: DynamicCache
    ) -> torch.Tensor:
        """Logits of the next token, (rows, vocabulary), in float32."""
        output = self.model(
            input_ids=input_ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float()

    def _read(self, tokens: list[int]) -> Sample:
        is_truncated = tokens[-1] not in self._end_ids.tolist()
        return Sample(self.tokenizer.decode(tokens, skip_special_tokens=True), len(tokens), is_truncated)


def draw_tokens(logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """
    Invert the cumulative distribution.

    Args:
        logits (`torch.Tensor` of shape `(rows, vocabulary)`):
            Unnormalised log-probabilities.
        uniforms (`torch.Tensor` of shape `(rows,)`):
            In [0, 1).

    Returns:
        `torch.Tensor` of shape `(rows,)`: the first token whose cumulative probability exceeds the uniform number; never
        one of probability 0.
    """
    cumulative = logits.double().softmax(-1).cumsum(-1)  # in float32 a large vocabulary's sum would be off by 1e-3
    total = cumulative[:, -1:].contiguous()  # 1, up to rounding
    drawn = torch.searchsorted(cumulative, uniforms.to(cumulative.dtype)[:, None] * total, right=True)
    # A number just below 1 can be rounded to 1, which nothing exceeds: the last token that adds to the total then.
    return torch.minimum(drawn, torch.searchsorted(cumulative, total))[:, 0]


def _end_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokenizer's end token and all that the model declares, as in TRL's training."""
    declared = model.generation_config.eos_token_id if model.generation_config else None
    declared = [declared] if declared is None or isinstance(declared, int) else declared
    ids = sorted({tokenizer.eos_token_id, *declared} - {None})
    if not ids:
        raise ValueError("The prover has no end token: set `eos_token` in its tokenizer or its generation config.")
    return ids


def iterate_samples(
    sampler: Sampler, prompts: Sequence[str], rngs: Sequence[Sequence[np.random.Generator]]
) -> Iterator[tuple[list[int], list[list[Sample]]]]:
    """Sample all `prompts` batch by batch; yields each batch's indices and samples."""
    for indices in sampler.batches(prompts):
        yield indices, sampler.sample([prompts[i] for i in indices], [rngs[i] for i in indices])
