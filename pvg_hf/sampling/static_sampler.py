"""Samples on a GPU with transformers' `generate`, a static cache and a compiled forward pass."""

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import PeftModel
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    StaticCache,
    StoppingCriteria,
)
from transformers.cache_utils import StaticLayer

from pvg_hf.core.stop_checks import stop_if_asked
from pvg_hf.models.hardware import free_bytes
from pvg_hf.models.kv_cache import MAX_ROWS, rows_that_fit
from pvg_hf.sampling.drawing import draw_tokens, drawn_logprobs, pad_left
from pvg_hf.sampling.grouped_attention import grouped_attention
from pvg_hf.sampling.sampler import Completions, Sampler

logger = logging.getLogger(__name__)

# A call of `generate` ends when this share of its rows has ended and others wait: the unfinished rows continue
# together in a later call. With a larger share more rows idle, with a smaller one more texts are read again.
ENDED_SHARE = 0.5
PROMPT_STEP = 8  # prompts are padded to a multiple of it
CACHE_STEP = 256  # and the cache's length is one of this: compiling another one takes 25 s, its attention little
SHAPES = 64  # compiled in one process; torch's own limit of 8 would end compilation after a few phases
FREE_SHARE = 0.8  # of the free memory that sampling may use
TRAINING_FREE_SHARE = 0.25  # the same if a model is trained meanwhile: the cache stays, activations need the rest


@dataclass
class _Row:
    """A completion that is being written."""

    index: int
    prompt: list[int]
    uniforms: torch.Tensor  # (max_new_tokens,)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def text(self) -> list[int]:
        return self.prompt + self.tokens


class UniformDraw(LogitsProcessor):
    """
    Leaves one token per row: the one that the row's uniform number selects.

    `generate` with `do_sample=False` then takes this token, so that a row's draws depend on its own numbers only.

    Args:
        uniforms: shape `(rows, steps)`. Uniform random numbers in [0, 1) of the next steps.
        width: Number of tokens of the padded prompts.
    """

    def __init__(self, uniforms: torch.Tensor, width: int):
        self.uniforms, self.width = uniforms, width
        self.logprobs: list[torch.Tensor] = []  # of the drawn tokens: (rows,) for each step

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        # On some devices, `generate` takes a step too many before it sees that all rows have ended.
        step = min(input_ids.shape[1] - self.width, self.uniforms.shape[1] - 1)
        drawn = draw_tokens(scores, self.uniforms[:, step])
        self.logprobs.append(drawn_logprobs(scores, drawn))
        return torch.full_like(scores, -torch.inf).scatter_(1, drawn[:, None], 0.0)


class ShareEnded(StoppingCriteria):
    """
    Ends a call when a share of its rows has ended, by an end token or by their maximum length.

    Args:
        share: In (0, 1].
        room: shape `(rows,)`. Number of tokens that each row may still have.
        end_ids: Tokens that end a row.
        width: Number of tokens of the padded prompts.
    """

    def __init__(self, share: float, room: torch.Tensor, end_ids: torch.Tensor, width: int):
        self.share, self.room, self.end_ids, self.width = share, room, end_ids, width
        self.is_ended = torch.zeros_like(room, dtype=torch.bool)

    def __call__(self, input_ids: torch.Tensor, scores, **kwargs) -> torch.Tensor:
        stop_if_asked()
        self.is_ended |= torch.isin(input_ids[:, -1], self.end_ids) | (self.room <= input_ids.shape[1] - self.width)
        return (self.is_ended.float().mean() >= self.share).expand(len(input_ids))  # no wait for the device


class _UniformCache(StaticCache):
    """
    A static cache whose keys have the type of its values. Under autocast they would be float32, which it refuses.
    """

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        return super().update(key_states.to(value_states.dtype), value_states, *args, **kwargs)


class StaticSampler(Sampler):
    """
    Samples with transformers' `generate`, a static cache and a compiled forward pass.

    Draws depend on a row's own uniform numbers, as those of [`Sampler`], up to rounding. As many rows as fit in memory
    are written at once. All calls have the same number of rows and the same cache, so that compilation happens once or
    twice. When half of a call's rows have ended and others wait, the unfinished ones continue in a later call, with
    what they have written as part of their prompts.

    If the model cannot be compiled, [`Sampler`]'s loop samples instead.

    Args:
        leaves_room: Whether a model is trained while the sampler exists, so that the cache may take less memory.
    """

    # Enough that rows which have ended are replaced. Memory decides how many of them are sampled at once.
    default_prompts_per_batch = 256
    compile_config = None  # of `generate`: its default compiles on a GPU

    def __init__(self, model, tokenizer, *, leaves_room: bool = False, **settings):
        super().__init__(model, tokenizer, **settings)
        self.leaves_room = leaves_room
        self._uses_loop = False
        self._longest = 0  # tokens of the longest prompt that is known
        self._max_rows = MAX_ROWS
        self._cache: StaticCache | None = None
        self._cache_shape = (0, 0)  # rows, tokens

    def batches(self, prompts: Sequence[str]) -> list[list[int]]:
        self._longest = max([self._longest, *map(len, self._encode(prompts))])  # so that all batches use one cache
        return super().batches(prompts)

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> Completions:
        from torch._dynamo.exc import TorchDynamoException  # slow to import

        if not self._uses_loop:
            try:
                return self._sample_statically(rows, uniforms)
            except TorchDynamoException as err:
                reason = str(err).strip().partition("\n")[0]
                logger.warning(
                    "The prover's forward pass cannot be compiled (%s); sampling without, which is slower.", reason
                )
                self._uses_loop = True
                self._cache = None
                self._prompts_at_once = min(self._prompts_at_once, Sampler.default_prompts_per_batch)
        return super().sample_ids(rows, uniforms)

    def _sample_statically(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> Completions:
        fresh = [_Row(index, list(ids), uniforms[index]) for index, ids in enumerate(rows)]
        fresh.sort(key=lambda row: len(row.prompt))
        started: list[_Row] = []  # rows that an earlier call has not finished
        ended: list[_Row] = []
        was_training = self.model.training
        self.model.eval()  # dropout would make draws irreproducible
        try:
            at_once = self._prepare_cache(fresh)
            while fresh or started:
                source = started if len(started) >= at_once or not fresh else fresh
                batch, rest = source[:at_once], source[at_once:]
                try:
                    self._write(batch, at_once, share=ENDED_SHARE if rest or (fresh and started) else 1.0)
                except torch.OutOfMemoryError:
                    if at_once == 1:
                        raise
                    at_once //= 2
                    is_short = True
                else:
                    is_short = False
                if is_short:  # outside the handler, because its traceback keeps the tensors alive
                    self._shrink(at_once)
                    continue
                fresh, started = (rest, started) if source is fresh else (fresh, rest)
                for row in batch:
                    (ended if self._is_ended(row) else started).append(row)
                started.sort(key=lambda row: len(row.text))
        finally:
            self.model.train(was_training)
        ended.sort(key=lambda row: row.index)
        return [row.tokens for row in ended], [row.logprobs for row in ended]

    def _is_ended(self, row: _Row) -> bool:
        return len(row.tokens) == self.max_new_tokens or row.tokens[-1] in self.end_ids

    def _prepare_cache(self, rows: Sequence[_Row]) -> int:
        """Make a cache that is large enough, unless there is one, and return its number of rows, a power of two."""
        self._longest = max([self._longest, *(len(row.prompt) for row in rows)])
        # A row that continues in a later call is padded once more.
        length = _round_up(self._longest + PROMPT_STEP + self.max_new_tokens, CACHE_STEP)
        num_rows = min(1 << max(0, len(rows) - 1).bit_length(), self._max_rows)
        if self._cache is None or num_rows > self._cache_shape[0] or length > self._cache_shape[1]:
            self._cache = None  # first, because its memory is free for the new one
            # Compilation leaves references in circles to earlier caches, and to models that are not used any more.
            gc.collect()
            device = self.model.device
            if device.type == "cuda":
                free = free_bytes(device) * (TRAINING_FREE_SHARE if self.leaves_room else FREE_SHARE)
                fitting = rows_that_fit(self.model.config, self.model.dtype, length, int(free))
                self._max_rows = min(self._max_rows, fitting)
            self._make_cache(min(max(num_rows, self._cache_shape[0]), self._max_rows), length)
        return self._cache_shape[0]

    def _make_cache(self, num_rows: int, length: int) -> None:
        self._cache_shape = (num_rows, length)
        self._cache = _UniformCache(self.model.config.get_text_config(decoder=True), max_cache_len=length)
        logger.info("Sampling %d rows of up to %d tokens at once.", num_rows, length)

    def _shrink(self, num_rows: int) -> None:
        self._cache = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning("%d rows at once do not fit in memory.", 2 * num_rows)
        self._max_rows = num_rows
        self._make_cache(num_rows, self._cache_shape[1])

    def _write(self, batch: list[_Row], num_rows: int, share: float) -> None:
        """Write on at `batch` until a share of it has ended, in a call with `num_rows` rows."""
        from torch._dynamo.utils import calculate_time_spent  # slow to import

        device = self.model.device
        padded = batch + batch[-1:] * (num_rows - len(batch))
        ids, mask = pad_left([row.text for row in padded], device, multiple=PROMPT_STEP)
        width, starts = ids.shape[1], torch.tensor([len(row.tokens) for row in padded])
        # The longest row can end within the cache; shorter ones continue in a later call if they do not.
        steps = min(self.max_new_tokens - int(starts.min()), self._cache_shape[1] - width)
        places = starts[:, None] + torch.arange(steps)  # (rows, steps)
        uniforms = torch.stack([row.uniforms for row in padded]).gather(1, places.clamp(max=self.max_new_tokens - 1))
        room = self.max_new_tokens - starts
        room[len(batch) :] = 0  # rows that only fill the call have ended
        share = (share * len(batch) + num_rows - len(batch)) / num_rows
        end_ids = torch.tensor(self.end_ids, device=device)
        assert self._cache is not None
        self._cache.reset()
        draw = UniformDraw(uniforms.to(device), width)
        compiled = calculate_time_spent()["total_wall_time"]
        with _plain_generation(self.model) as model, torch._dynamo.config.patch(recompile_limit=SHAPES):
            self._read_once(model, padded, ids, mask)
            written = model.generate(
                input_ids=ids,
                attention_mask=mask,
                past_key_values=self._cache,
                generation_config=self._settings(steps),
                logits_processor=LogitsProcessorList([*self.warpers, draw]),
                stopping_criteria=[ShareEnded(share, room.to(device), end_ids, width)],
            )[:, width:]
        if seconds := calculate_time_spent()["total_wall_time"] - compiled:
            logger.info("Compiled the forward pass of %d rows in %.0f s.", num_rows, seconds)
        logprobs = torch.stack(draw.logprobs, dim=1).tolist()
        for row, tokens, logprobs_of_row in zip(batch, written.tolist(), logprobs, strict=False):
            tokens = tokens[: self.max_new_tokens - len(row.tokens)]
            ends = [place for place, token in enumerate(tokens) if token in self.end_ids]
            num_kept = ends[0] + 1 if ends else len(tokens)
            row.tokens += tokens[:num_kept]
            row.logprobs += logprobs_of_row[:num_kept]

    @torch.no_grad()
    def _read_once(self, model: Any, rows: list[_Row], ids: torch.Tensor, mask: torch.Tensor) -> None:
        """Read equal texts, such as the prompt of a problem's solutions, once, up to their last token."""
        assert self._cache is not None
        first = {tuple(row.text): place for place, row in reversed(list(enumerate(rows)))}
        # A layer with a sliding window keeps less than all tokens.
        if len(first) == len(rows) or any(type(layer) is not StaticLayer for layer in self._cache.layers):
            return
        owners = {place: number for number, place in enumerate(first.values())}
        device = ids.device
        distinct = torch.tensor(list(owners), device=device)
        of_rows = torch.tensor([owners[first[tuple(row.text)]] for row in rows], device=device)
        states = DynamicCache(config=model.config.get_text_config(decoder=True))
        seen = mask[distinct, :-1]
        model(
            input_ids=ids[distinct, :-1],
            attention_mask=seen,
            position_ids=(seen.cumsum(-1) - 1).clamp(min=0),
            past_key_values=states,
            use_cache=True,
            logits_to_keep=1,
        )
        layers: Any = states.layers  # of several kinds, which share no type
        for index, layer in enumerate(layers):
            self._cache.update(layer.keys[of_rows], layer.values[of_rows], index)

    def _settings(self, steps: int) -> GenerationConfig:
        padding = self.tokenizer.pad_token_id
        return GenerationConfig(
            do_sample=False,
            max_new_tokens=steps,
            eos_token_id=self.end_ids,
            pad_token_id=self.end_ids[0] if padding is None else padding,
            compile_config=self.compile_config,
        )


@contextmanager
def _plain_generation(model: PreTrainedModel | PeftModel) -> Iterator[Any]:
    """
    Return the model that generates, without the settings of its own generation config, which `generate` would add.
    """
    inner: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    stored = inner.generation_config
    inner.generation_config = GenerationConfig()
    try:
        with grouped_attention(inner):
            yield inner
    finally:
        inner.generation_config = stored


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step
