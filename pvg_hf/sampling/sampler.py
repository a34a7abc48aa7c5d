"""Samples solutions with uniform numbers of each row's own, so that a draw does not depend on its company."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.sampling.drawing import draw_solutions

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
        self.end_ids = _end_token_ids(model, tokenizer)

    def batches(self, prompts: Sequence[str]) -> list[list[int]]:
        """Indices of `prompts` in batches of like length; they depend on nothing but the prompts."""
        return _batches_of_like_length(self._encode(prompts), self.prompts_per_batch)

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
        num_samples = len(rngs[0])
        rows = [ids for ids in self._encode(prompts) for _ in range(num_samples)]
        uniforms = np.stack([rng.random(self.max_new_tokens) for row in rngs for rng in row])
        samples = [self._read(tokens) for tokens in self.sample_ids(rows, torch.from_numpy(uniforms))]
        return [samples[start : start + num_samples] for start in range(0, len(samples), num_samples)]

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> list[list[int]]:
        """
        Args:
            rows (`Sequence[list[int]]`):
                Token ids of each row's prompt; equal ones are computed once.
            uniforms (`torch.Tensor` of shape `(rows, max_new_tokens)`):
                In [0, 1).

        Returns:
            `list[list[int]]`: the tokens of each row, up to its end token or `max_new_tokens`.

        Raises:
            torch.OutOfMemoryError: if the rows of a single prompt do not fit.
        """
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, ids in enumerate(rows):
            rows_of.setdefault(tuple(ids), []).append(row)
        prompts = [list(ids) for ids in rows_of]
        tokens: dict[int, list[int]] = {}
        was_training = self.model.training
        self.model.eval()
        try:
            for batch in _batches_of_like_length(prompts, self.prompts_per_batch):
                members = [rows_of[tuple(prompts[index])] for index in batch]
                self._draw_in_parts([prompts[index] for index in batch], members, uniforms, tokens)
        finally:
            self.model.train(was_training)
        return [tokens[row] for row in range(len(rows))]

    def _draw_in_parts(
        self, prompts: list[list[int]], members: list[list[int]], uniforms: torch.Tensor, tokens: dict[int, list[int]]
    ) -> None:
        """Put the tokens of all `members` in `tokens`: all prompts at once, or as many as fit in memory."""
        start = 0
        while start < len(prompts):
            part = slice(start, min(start + self._prompts_at_once, len(prompts)))
            rows = [row for rows in members[part] for row in rows]
            owners = [place for place, rows in enumerate(members[part]) for _ in rows]
            try:
                drawn = self._draw(prompts[part], torch.tensor(owners), uniforms[rows])
            except torch.OutOfMemoryError:
                if part.stop == start + 1:
                    raise
                drawn = None
            if drawn is None:  # outside of the handler, whose traceback holds the tensors
                self._halve(part.stop - start)
                continue
            tokens.update(zip(rows, drawn, strict=True))
            start = part.stop

    def _draw(self, prompts: list[list[int]], owners: torch.Tensor, uniforms: torch.Tensor) -> list[list[int]]:
        end_ids = torch.tensor(self.end_ids, device=self.model.device)
        return draw_solutions(self.model, prompts, owners, uniforms, temperature=self.temperature, end_ids=end_ids)

    def _halve(self, num_prompts: int) -> None:
        self._prompts_at_once = num_prompts // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning(
            "%d prompts at once do not fit in memory; from here on it is %d.", num_prompts, self._prompts_at_once
        )

    def _encode(self, prompts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(prompts))["input_ids"] if prompts else []

    def _read(self, tokens: list[int]) -> Sample:
        is_truncated = tokens[-1] not in self.end_ids
        return Sample(self.tokenizer.decode(tokens, skip_special_tokens=True), len(tokens), is_truncated)


def _batches_of_like_length(prompts: Sequence[list[int]], prompts_per_batch: int) -> list[list[int]]:
    order = sorted(range(len(prompts)), key=lambda index: (len(prompts[index]), index))
    return [order[start : start + prompts_per_batch] for start in range(0, len(order), prompts_per_batch)]


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
