"""The prover's own correct solutions, which sneaky prompts show with `task.honest_source: prover`."""

from collections.abc import Sequence
from pathlib import Path

from accelerate.utils import broadcast_object_list

from pvg_hf.core.roles import Outcome, Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.pool import load_pool
from pvg_hf.data.schema import outcome_of
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.minting import sample_everywhere, strip_evaluation
from pvg_hf.sampling import Sample, Sampler
from pvg_hf.sampling.graded_solutions import grade_samples
from pvg_hf.tasks import Task
from pvg_hf.tasks.grade import Grade


def sample_honest_solutions(context: PhaseContext, part: str, sampler: Sampler) -> dict[str, str]:
    """
    Let a prover write `mint.solutions_per_problem` helpful solutions to each problem of a part, and choose the first correct one.

    Args:
        context ([`PhaseContext`]):
            The phase, from which the draws are seeded. All processes must call this.
        part (`str`):
            Part of the split.
        sampler ([`~pvg_hf.sampling.Sampler`]):
            The prover.

    Returns:
        `dict[str, str]`: texts by problem, as [`~pvg_hf.tasks.Task.shown_solution`] returns them; problems without a correct
        solution are missing.
    """
    task, problems = context.problems.task, context.problems.parts[part].to_list()
    seed = context.seed("honest solutions")

    def choose(indices: list[int], samples: list[list[Sample]]) -> list[str | None]:
        written = [
            [strip_evaluation(context.recipe.prover, sample, sampler.tokenizer) for sample in row] for row in samples
        ]
        grades = grade_samples(task, [problems[i] for i in indices], written)
        return [_first_correct(task, *drawn) for drawn in zip(written, grades, strict=True)]

    found = sample_everywhere(
        context,
        sampler,
        problems,
        Role.HELPFUL,
        make_rng=lambda problem_id, number: derive_rng(seed, problem_id, number),
        num_samples=context.recipe.mint.solutions_per_problem,
        finish=choose,
    )
    chosen = zip(problems, found, strict=True)
    return {problem["problem_id"]: text for problem, text in chosen if text is not None}


def _first_correct(task: Task, samples: Sequence[Sample], grades: Sequence[Grade]) -> str | None:
    for sample, grade in zip(samples, grades, strict=True):
        if outcome_of(grade, sample.is_truncated) is Outcome.VERIFIED:
            return task.shown_solution(task.solution_in(sample.text))
    return None


def minted_honest_solutions(context: PhaseContext, pools: Sequence[Path]) -> dict[str, str]:
    """
    Choose the first correct solution to each problem in files of the helpful role, as in [`sample_honest_solutions`].

    The main process reads the files, which it has just written, and sends the solutions to the others.
    """
    found = read_honest_solutions(context.problems.task, pools) if context.processes.is_main_process else {}
    return broadcast_object_list([found])[0]


def read_honest_solutions(task: Task, pools: Sequence[Path]) -> dict[str, str]:
    """Choose the first correct solution to each problem in files of the helpful role, as in [`sample_honest_solutions`]."""
    rows = load_pool(pools, ["problem_id", "solution", "outcome"]).to_pandas()
    correct = rows[rows["outcome"] == Outcome.VERIFIED].drop_duplicates("problem_id")
    texts = map(task.shown_solution, correct["solution"])
    return dict(zip(correct["problem_id"], texts, strict=True))
