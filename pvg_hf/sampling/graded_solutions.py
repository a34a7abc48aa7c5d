"""Writes solutions to problems: samples them, grades them, and makes rows of the pool."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.schema import make_solution
from pvg_hf.sampling.sampler import Sample, Sampler, iterate_samples
from pvg_hf.tasks import PromptBuilder, Task
from pvg_hf.tasks.base import Grade, Problem, final_grade, grade_solutions

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
        writer = {"part": part, "role": role, "round_index": round_index, "prover": prover}
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
    writer = {"part": part, "role": role, "round_index": round_index, "prover": prover}
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
