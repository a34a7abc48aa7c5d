"""Writes solutions to problems: samples them, grades them, and makes rows of the pool."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.schema import BASE_ROUND, final_grade, make_solution, round_name
from pvg_hf.sampling.sampler import Sample, Sampler, iterate_samples
from pvg_hf.tasks import PromptBuilder, Task
from pvg_hf.tasks.base import Problem, grade_solution
from pvg_hf.tasks.grade import Grade

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
        sampler ([`Sampler`]):
            The prover.
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
    texts = [prompts.text(problem, role, honest_solution=problem["reference"]) for problem in problems]
    stop_strings = task.stop_strings if role == Role.BASE else ()

    def rngs(index: int) -> list[np.random.Generator]:
        path = (seed, round_name(round_index), role, problems[index]["problem_id"])
        return [derive_rng(*path, number) for number in range(num_samples)]

    rows: dict[int, list[Row]] = {}
    for indices, samples in iterate_samples(sampler, [prompts.render(text, tokenizer) for text in texts], rngs):
        for index, drawn in zip(indices, samples, strict=True):
            drawn = [cut_at_stop(sample, stop_strings, tokenizer) for sample in drawn]
            writer = {"part": part, "role": role, "round_index": round_index, "prover": prover}
            rows[index] = make_rows(task, problems[index], drawn, **writer)
    return [row for index in range(len(problems)) for row in rows[index]]


def make_rows(
    task: Task, problem: Problem, samples: Sequence[Sample], *, part: str, role: Role, round_index: int, prover: str
) -> list[Row]:
    """
    Make rows of the pool from the samples of one problem, with the task's grades as labels.

    Args:
        task ([`~pvg_hf.tasks.Task`]), problem (`Mapping`), samples (`Sequence[Sample]`):
            The task, one of its problems, and solutions to it.
        part, role, round_index, prover:
            As for [`~pvg_hf.data.make_solution`].
    """
    rows = []
    for index, sample in enumerate(samples):
        grade = grade_sample(task, problem, sample)
        rows.append(
            make_solution(
                task=task,
                problem=problem,
                part=part,
                role=role,
                round_index=round_index,
                prover=prover,
                solution=sample.text,
                grade=grade,
                label=int(grade.correct),
                sample_index=index,
                num_tokens=sample.num_tokens,
                is_truncated=sample.is_truncated,
            )
        )
    return rows


def grade_sample(task: Task, problem: Problem, sample: Sample) -> Grade:
    """Grade a sample; a truncated one has failed."""
    return final_grade(grade_solution(task, problem, sample.text), sample.is_truncated)


def cut_at_stop(sample: Sample, stop_strings: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> Sample:
    """Cut a sample at its first stop string, if any; a cut sample counts as finished, not truncated."""
    places = [place for stop in stop_strings if (place := sample.text.find(stop)) >= 0]
    if not places:
        return sample
    text = sample.text[: min(places)]
    return Sample(text, len(tokenizer(text, add_special_tokens=False)["input_ids"]), is_truncated=False)
