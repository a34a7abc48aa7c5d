"""Samples solutions such that a draw does not depend on the batch, grades them, and makes rows of the pool."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.schema import make_solution
from pvg_hf.models.vocabulary import decode
from pvg_hf.sampling.drawing import draw_solutions, make_warpers
from pvg_hf.tasks import PromptBuilder, Task
from pvg_hf.tasks.base import Grade, Problem, final_grade, grade_solutions

logger = logging.getLogger(__name__)


# Settings of the distribution, by their names in transformers, TRL, vLLM and the recipe.
DISTRIBUTION = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


# Tokens of each row, and their log-probabilities if the engine reports them.
Completions = tuple[list[list[int]], list[list[float]] | None]


@dataclass(frozen=True)
class Sample:
    """
    Text and length of a sampled solution.

    Args:
        text (`str`):
            The solution, without special tokens.
        num_tokens (`int`):
            Number of tokens drawn, including the end token.
        is_truncated (`bool`):
            Whether the maximum length was reached before the end token.
    """

    text: str
    num_tokens: int
    is_truncated: bool


class Sampler:
    """
    Samples solutions from a causal language model by inverting the cumulative distribution at given uniform numbers.

    Samples of a problem share the forward pass of its prompt, and finished rows leave the batch.

    Class attributes:
        default_prompts_per_batch (`int`):
            Number of prompts sampled together by default.

    Args:
        model ([`~transformers.PreTrainedModel`]):
            The prover. Its train or eval mode is restored.
        max_new_tokens (`int`):
            Maximum length of a solution, in tokens.
        temperature (`float`, defaults to 1.0):
            Sampling temperature, above 0.
        top_p (`float`, defaults to 1.0), top_k (`int`, defaults to 0), min_p (`float`, defaults to 0.0):
            Truncation of the distribution, as in transformers' `generate`; the defaults do not truncate.
        repetition_penalty (`float`, defaults to 1.0):
            Factor by which logits of tokens in the prompt or the solution are reduced.
        prompts_per_batch (`int`, *optional*):
            Number of prompts sampled together, by default `default_prompts_per_batch`; it is reduced when memory runs
            out.

    Raises:
        ValueError: for a setting outside its range, or a prover without an end token.
    """

    default_prompts_per_batch = 32

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        prompts_per_batch: int | None = None,
    ):
        if prompts_per_batch is None:
            prompts_per_batch = self.default_prompts_per_batch
        if not (temperature > 0 and min(max_new_tokens, prompts_per_batch) >= 1):
            raise ValueError(
                "`temperature` must be above 0, `max_new_tokens` and `prompts_per_batch` at least 1; got "
                f"{temperature}, {max_new_tokens} and {prompts_per_batch}."
            )
        self.model = model
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        values = (float(temperature), top_p, top_k, min_p, repetition_penalty)
        self.distribution: dict[str, Any] = dict(zip(DISTRIBUTION, values, strict=True))
        self.warpers = make_warpers(**self.distribution)
        self.prompts_per_batch = prompts_per_batch
        self._prompts_at_once = prompts_per_batch  # reduced when memory runs out
        self.end_ids = _end_token_ids(model, tokenizer)

    def batches(self, prompts: Sequence[str]) -> list[list[int]]:
        """Split the indices of `prompts` into batches of similar length, in a way that depends on the prompts only."""
        return _batches_of_like_length(self._encode(prompts), self.prompts_per_batch)

    def sample(self, prompts: Sequence[str], rngs: Sequence[Sequence[np.random.Generator]]) -> list[list[Sample]]:
        """
        Sample solutions for a batch of prompts.

        Args:
            rngs (`Sequence[Sequence[Generator]]`):
                A generator for each sample of each prompt; every prompt has the same number.

        Returns:
            `list[list[Sample]]`: the samples of each prompt.

        Raises:
            ValueError: if a prompt has no generators, or not as many as the others.
        """
        if len(rngs) != len(prompts) or len({len(row) for row in rngs}) != 1:
            raise ValueError(
                f"{len(prompts)} prompts came with these numbers of generators: {[len(row) for row in rngs]}; every"
                " prompt needs the same number."
            )
        num_samples = len(rngs[0])
        # Samples of one prompt are adjacent rows: (prompts * num_samples,)
        rows = [ids for ids in self._encode(prompts) for _ in range(num_samples)]
        uniforms = np.stack([rng.random(self.max_new_tokens) for row in rngs for rng in row])
        completions, _ = self.sample_ids(rows, torch.from_numpy(uniforms))
        samples = [self._read(tokens) for tokens in completions]
        return [samples[start : start + num_samples] for start in range(0, len(samples), num_samples)]

    def sample_ids(self, rows: Sequence[list[int]], uniforms: torch.Tensor) -> Completions:
        """
        Sample completions of tokenised prompts.

        Args:
            rows (`Sequence[list[int]]`):
                Token ids of each row's prompt; equal prompts are computed once.
            uniforms (`torch.Tensor` of shape `(rows, max_new_tokens)`):
                Uniform random numbers in [0, 1), one per token.

        Returns:
            `tuple[list[list[int]], list[list[float]] | None]`: the tokens of each row up to its end token, or
            `max_new_tokens` of them, and their log-probabilities in the distribution that they are drawn from; `None`
            for an engine that does not report them.

        Raises:
            torch.OutOfMemoryError: if the rows of a single prompt do not fit.
        """
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, ids in enumerate(rows):
            # Equal prompts share one forward pass.
            rows_of.setdefault(tuple(ids), []).append(row)
        prompts = [list(ids) for ids in rows_of]
        drawn: dict[int, tuple[list[int], list[float]]] = {}
        was_training = self.model.training
        self.model.eval()  # dropout would make draws irreproducible
        try:
            for batch in _batches_of_like_length(prompts, self.prompts_per_batch):
                members = [rows_of[tuple(prompts[index])] for index in batch]
                self._draw_in_parts([prompts[index] for index in batch], members, uniforms, drawn)
        finally:
            self.model.train(was_training)
        every = [drawn[row] for row in range(len(rows))]
        return [tokens for tokens, _ in every], [logprobs for _, logprobs in every]

    def _draw_in_parts(
        self,
        prompts: list[list[int]],
        members: list[list[int]],
        uniforms: torch.Tensor,
        drawn: dict[int, tuple[list[int], list[float]]],
    ) -> None:
        """Draw tokens and log-probabilities of all `members`, for as many prompts at once as fit in memory."""
        start = 0
        while start < len(prompts):
            part = slice(start, min(start + self._prompts_at_once, len(prompts)))
            rows = [row for rows in members[part] for row in rows]
            owners = [place for place, rows in enumerate(members[part]) for _ in rows]
            try:
                found = self._draw(prompts[part], torch.tensor(owners), uniforms[rows])
            except torch.OutOfMemoryError:
                if part.stop == start + 1:
                    raise
                found = None
            if found is None:  # outside the handler, because its traceback keeps the tensors alive
                self._halve(part.stop - start)
                continue
            drawn.update(zip(rows, zip(*found, strict=True), strict=True))
            start = part.stop

    def _draw(
        self, prompts: list[list[int]], owners: torch.Tensor, uniforms: torch.Tensor
    ) -> tuple[list[list[int]], list[list[float]]]:
        end_ids = torch.tensor(self.end_ids, device=self.model.device)
        return draw_solutions(self.model, prompts, owners, uniforms, warpers=self.warpers, end_ids=end_ids)

    def _halve(self, num_prompts: int) -> None:
        self._prompts_at_once = num_prompts // 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        logger.warning(
            "%d prompts at once do not fit in memory; using %d from now on.", num_prompts, self._prompts_at_once
        )

    def _encode(self, prompts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(prompts))["input_ids"] if prompts else []

    def _read(self, tokens: list[int]) -> Sample:
        is_truncated = tokens[-1] not in self.end_ids
        return Sample(decode(self.tokenizer, tokens, skip_special_tokens=True), len(tokens), is_truncated)


def _batches_of_like_length(prompts: Sequence[list[int]], prompts_per_batch: int) -> list[list[int]]:
    order = sorted(range(len(prompts)), key=lambda index: (len(prompts[index]), index))
    return [order[start : start + prompts_per_batch] for start in range(0, len(order), prompts_per_batch)]


def _end_token_ids(model: PreTrainedModel | PeftModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the tokenizer's end token and all end tokens that the model declares, as TRL's training does."""
    declared = model.generation_config.eos_token_id if model.generation_config else None
    declared = [declared] if declared is None or isinstance(declared, int) else declared
    ids = sorted({tokenizer.eos_token_id, *declared} - {None})
    if not ids:
        raise ValueError("The prover has no end token: set `eos_token` in its tokenizer or its generation config.")
    return ids


def iterate_samples(
    sampler: Sampler, prompts: Sequence[str], rngs: Callable[[int], Sequence[np.random.Generator]]
) -> Iterator[tuple[list[int], list[list[Sample]]]]:
    """
    Sample `prompts` batch by batch.

    Args:
        rngs (`Callable`):
            Index of a prompt to its generators, one per sample.

    Yields:
        `tuple[list[int], list[list[Sample]]]`: the indices of a batch's prompts, and their samples.
    """
    for indices in sampler.batches(prompts):
        yield indices, sampler.sample([prompts[i] for i in indices], [rngs(i) for i in indices])


Row = dict[str, Any]


def sample_solutions(
    sampler: Sampler,
    prompts: PromptBuilder,
    problems: Sequence[Problem],
    role: Role | str,
    *,
    num_samples: int,
    seed: int,
    part: str = "verifier",
    round_index: int = BASE_ROUND,
    prover: str = "",
) -> list[Row]:
    """
    Write solutions to problems in one role, and grade them.

    Args:
        prompts ([`~pvg_hf.tasks.PromptBuilder`]):
            Builds the prompts; its task grades the solutions.
        problems (`Sequence[Mapping]`):
            Problems of the task, such as a part from [`~pvg_hf.data.split_problems`].
        role ([`~pvg_hf.core.roles.Role`] or `str`):
            `"base"`, `"helpful"` or `"sneaky"`.
        num_samples (`int`):
            Number of solutions to each problem.
        seed (`int`):
            Seed of the draws. Those of a solution depend neither on its batch nor on the other problems.
        part (`str`, defaults to `"verifier"`):
            Part of the split that contains the problems.
        round_index (`int`, defaults to -1), prover (`str`, *optional*):
            Round and name of the prover, for the rows.

    Returns:
        `list[dict]`: rows of a pool (see [`~pvg_hf.data.make_solution`]), those of a problem next to each other and in
        the order of the problems. Labels are the task's grades.
    """
    role, tokenizer, task = Role(role), sampler.tokenizer, prompts.task
    asked = [prompts.render(problem, role, tokenizer, honest_solution=problem["reference"]) for problem in problems]
    stop_strings = task.stop_strings if role == Role.BASE else ()

    def rngs(index: int) -> list[np.random.Generator]:
        path = (seed, round_name(round_index), role, problems[index]["problem_id"])
        return [derive_rng(*path, number) for number in range(num_samples)]

    rows: dict[int, list[Row]] = {}
    for indices, samples in iterate_samples(sampler, asked, rngs):
        cut = [[cut_at_stop(sample, stop_strings, tokenizer) for sample in drawn] for drawn in samples]
        writer: dict[str, Any] = {"part": part, "role": role, "round_index": round_index, "prover": prover}
        rows |= zip(indices, make_rows(task, [problems[index] for index in indices], cut, **writer), strict=True)
    return [row for index in range(len(problems)) for row in rows[index]]


def make_rows(
    task: Task,
    problems: Sequence[Problem],
    samples: Sequence[Sequence[Sample]],
    *,
    part: str,
    role: Role,
    round_index: int,
    prover: str,
) -> list[list[Row]]:
    """
    Make rows of the pool from the samples of some problems, with the task's grades as labels.

    Args:
        task ([`~pvg_hf.tasks.Task`]), problems (`Sequence[Mapping]`), samples (`Sequence[Sequence[Sample]]`):
            The task, some of its problems, and solutions to each.
        part, role, round_index, prover:
            As for [`~pvg_hf.data.make_solution`].

    Returns:
        `list[list[dict]]`: the rows of each problem.
    """
    writer: dict[str, Any] = {"part": part, "role": role, "round_index": round_index, "prover": prover}
    return [
        [
            make_solution(
                task=task,
                problem=problem,
                solution=sample.text,
                grade=grade,
                label=grade.label,
                sample_index=index,
                num_tokens=sample.num_tokens,
                is_truncated=sample.is_truncated,
                **writer,
            )
            for index, (sample, grade) in enumerate(zip(drawn, grades, strict=True))
        ]
        for problem, drawn, grades in zip(problems, samples, grade_samples(task, problems, samples), strict=True)
    ]


def grade_samples(task: Task, problems: Sequence[Problem], samples: Sequence[Sequence[Sample]]) -> list[list[Grade]]:
    """Grade samples of some problems, as many at a time as the task allows; a truncated one has failed."""
    asked = [(problem, sample) for problem, drawn in zip(problems, samples, strict=True) for sample in drawn]
    grades = grade_solutions(task, [(problem, sample.text) for problem, sample in asked])
    final = iter([final_grade(grade, sample.is_truncated) for grade, (_, sample) in zip(grades, asked, strict=True)])
    return [[next(final) for _ in drawn] for drawn in samples]


def cut_at_stop(sample: Sample, stop_strings: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> Sample:
    """Cut a sample at its first stop string, if any; a cut sample counts as finished, not truncated."""
    places = [place for stop in stop_strings if (place := sample.text.find(stop)) >= 0]
    if not places:
        return sample
    text = sample.text[: min(places)]
    return Sample(text, len(tokenizer(text, add_special_tokens=False)["input_ids"]), is_truncated=False)
