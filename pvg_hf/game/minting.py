"""
Mints solutions: a prover writes them, the task grades them, the verifier scores them, and noise is added to labels.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from tqdm.auto import tqdm

from pvg_hf.analyses.form import text_before_evaluation
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.files import remove, write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.core.stopwatch import WRITING, count_tokens, spending
from pvg_hf.data.pool import load_pool, write_pool
from pvg_hf.data.schema import describe_outcomes, solution_features
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.labels import LabelSource, iterate_labelled
from pvg_hf.models.token_flops import flops_per_token
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import BATCHES
from pvg_hf.sampling import Sample, Sampler
from pvg_hf.sampling.sampler import cut_at_stop, make_rows
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer
from pvg_hf.tasks import Task

Row = dict[str, Any]
Scorer = VerifierScorer | GenerativeVerifier
PROBLEMS_PER_CHUNK = 512  # problems whose solutions are held in memory at a time


@dataclass(frozen=True)
class WriteJob:
    """A job for the prover: write `num_samples` solutions for each problem of a part of the split, in one role."""

    part: str
    role: Role
    round_index: int  # of the prover; -1 for the base prover
    num_samples: int
    checkpoint: str = ""  # name of the round's checkpoint that writes; empty for the last one


def write_solutions(
    context: PhaseContext,
    path: Path,
    jobs: list[WriteJob],
    sampler: Sampler,
    scorer: Scorer | None = None,
    labels: LabelSource | None = None,
) -> Counter[str]:
    """
    Write the solutions of `jobs` to one Parquet file.

    All processes share the work, and the main process writes the file. Labels come from `labels`; without it they are
    clean. Each batch is kept on the disk until the phase ends ([`forget_batches`]), so that a phase that was stopped
    samples and scores only the others. The number of solutions by outcome is returned.
    """
    rows = iterate_labelled(context.stop, _sampled_rows(context, path, jobs, sampler, scorer), labels)
    return write_and_count(path, rows, context.problems.task, is_main=context.processes.is_main_process)


def write_and_count(path: Path, batches: Iterable[list[Row]], task: Task, *, is_main: bool) -> Counter[str]:
    """Have the main process write batches of rows to a Parquet file, and return the number of solutions by outcome."""
    counts: Counter[str] = Counter()

    def counted() -> Iterator[list[Row]]:
        for batch in batches:
            counts.update(row["outcome"] for row in batch)
            yield batch

    if is_main:
        write_pool(path, counted(), solution_features(task))
    else:
        deque(counted(), maxlen=0)
    return counts


def describe_written(written: Mapping[str, Counter[str]]) -> str:
    """Describe the outcomes of solutions by who wrote them, e.g. `400 helpful solutions: 81.0 % correct, ...`."""
    return "; ".join(f"{counts.total():,} {name}: {describe_outcomes(counts)}" for name, counts in written.items())


def count_scored(output: Path) -> Counter[str]:
    """Sum the counts of the scorer, such as truncated inputs, over all batches of a phase in its folder `output`."""
    counts: Counter[str] = Counter()
    for file in sorted(output.glob(f"{BATCHES}/*/*.json")):
        counts.update(read_json(file, dict[str, int]))
    return counts


def forget_batches(output: Path, processes: PartialState) -> None:
    """Delete the batches of a phase whose files are complete."""
    processes.wait_for_everyone()
    if processes.is_main_process:
        remove(output / BATCHES)


def _sampled_rows(
    context: PhaseContext, path: Path, jobs: list[WriteJob], sampler: Sampler, scorer: Scorer | None
) -> Iterator[Row]:
    total = sum(len(context.problems.parts[job.part]) for job in jobs)
    is_silent = not (context.processes.is_main_process and shows_progress(context.recipe.logging))
    with tqdm(total=total, desc=str(context.phase), unit="problem", disable=is_silent, leave=False) as bar:
        for job in jobs:
            problems = context.problems.parts[job.part]
            for start in range(0, len(problems), PROBLEMS_PER_CHUNK):
                chunk = problems.select(range(start, min(start + PROBLEMS_PER_CHUNK, len(problems))))
                kept = path.parent / BATCHES / f"{path.stem}-{job.part}-{start:06d}"
                yield from sample_rows(context, job, chunk, sampler, scorer, kept)
                bar.update(len(chunk))


def sample_rows(
    context: PhaseContext,
    job: WriteJob,
    problems: Dataset,
    sampler: Sampler,
    scorer: Scorer | None = None,
    kept: Path | None = None,
) -> list[Row]:
    """
    Rows of some problems in their order, gathered from all processes; batches are kept in the folder `kept`, if any.
    """
    problems = problems.to_list()
    stop_strings = context.problems.task.stop_strings if job.role == Role.BASE else ()

    def make_rng(problem_id: str, number: int) -> np.random.Generator:
        return derive_rng(context.recipe.seed, round_name(job.round_index), "mint", job.role, problem_id, number)

    def finish(indices: list[int], samples: list[list[Sample]]) -> list[list[Row]]:
        samples = [[cut_at_stop(sample, stop_strings, sampler.tokenizer) for sample in row] for row in samples]
        task = context.problems.task
        prover = "/".join(filter(None, (context.recipe.name, round_name(job.round_index), job.checkpoint)))
        writer: dict[str, Any] = {"part": job.part, "role": job.role, "round_index": job.round_index, "prover": prover}
        rows = make_rows(task, [problems[i] for i in indices], samples, **writer)
        if scorer is not None:
            flat = [row for group in rows for row in group]
            scores = scorer([row["problem"] for row in flat], [row["solution"] for row in flat])
            for row, score in zip(flat, scores, strict=True):
                row["score"] = score
        return rows

    def recall(number: int, draw: Callable[[], list[list[Row]]]) -> list[list[Row]]:
        if kept is None:
            return draw()
        file = kept / f"{number:04d}.parquet"
        if not file.exists():
            known: Counter[str] = Counter() if scorer is None else Counter(scorer.counts)
            rows = [row for rows in draw() for row in rows]
            if scorer is not None:
                write_json(file.with_suffix(".json"), {name: scorer.counts[name] - known[name] for name in known})
            # Last, because it marks the batch as kept.
            write_pool(file, [rows], solution_features(context.problems.task))
        rows = load_pool(file).to_list()
        return [rows[start : start + job.num_samples] for start in range(0, len(rows), job.num_samples)]

    found = sample_everywhere(
        context,
        sampler,
        problems,
        job.role,
        make_rng=make_rng,
        num_samples=job.num_samples,
        finish=finish,
        recall=recall,
    )
    return [row for rows in found for row in rows]


def sample_everywhere(
    context: PhaseContext,
    sampler: Sampler,
    asked: Sequence[Row],
    role: Role,
    *,
    make_rng: Callable[[str, int], np.random.Generator],
    num_samples: int,
    finish: Callable[[list[int], list[list[Sample]]], list] = lambda indices, samples: samples,
    recall: Callable[[int, Callable[[], list]], list] = lambda number, draw: draw(),
) -> list:
    """
    Sample solutions to problems on all processes; each process takes a share of the batches.

    Batches are the same for any number of processes, and so are their last bits. Of a self-evaluating prover's samples
    only the proof is left. All processes must call this with the same problems.

    Args:
        make_rng: `(problem_id, number) -> generator` of the draws of one solution. They depend neither on batches nor
        on the
            number of processes.
        finish: `(indices, samples) -> results`, called in the process that sampled a batch, with one result per
        problem. By
            default, results are the samples.
        recall: `(number, draw) -> results` of the batch of this number; `draw` samples it. By default, every batch is
        drawn.

    Returns: one result per problem, in the order of `asked`, on every process.

    Raises `GameInterrupted` if the user asked to stop. The current batch is abandoned.
    """
    prompts = [context.problems.prompt(problem, role, sampler.tokenizer) for problem in asked]
    flops = flops_per_token(sampler.model)

    def draw(indices: list[int]) -> list:
        rngs = [[make_rng(asked[index]["problem_id"], number) for number in range(num_samples)] for index in indices]
        with spending(WRITING):
            samples = sampler.sample([prompts[index] for index in indices], rngs)
            count_tokens(sum(sample.num_tokens for drawn in samples for sample in drawn), flops)
        if context.recipe.prover.self_evaluation is not None:
            samples = [[_without_evaluation(sample, sampler.tokenizer) for sample in drawn] for drawn in samples]
        results = finish(indices, samples)
        context.stop.check_alone()
        return results

    mine: list[tuple[int, Any]] = []
    share = slice(context.processes.process_index, None, context.processes.num_processes)
    with context.stop.sharing():
        for number, indices in list(enumerate(sampler.batches(prompts)))[share]:
            mine += zip(indices, recall(number, partial(draw, indices)), strict=True)
    return [result for _, result in sorted(gather_object(mine), key=itemgetter(0))]


def _without_evaluation(sample: Sample, tokenizer) -> Sample:
    """Remove a self-evaluating prover's evaluation from a sample, so that the proof is left."""
    proof = text_before_evaluation(sample.text)
    if proof == sample.text:
        return sample
    return Sample(proof, len(tokenizer(proof, add_special_tokens=False)["input_ids"]), is_truncated=False)
