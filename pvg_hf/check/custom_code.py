"""Checks the task and custom code by calling them on a few problems or synthetic inputs."""

from collections.abc import Callable, Iterator
from functools import partial

import torch

from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.core.extensions import running
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.problems import GameProblems, load_recipe_task
from pvg_hf.data.schema import solution_features
from pvg_hf.rewards import load_reward
from pvg_hf.tasks.base import (
    PROBLEM_COLUMNS,
    SHOWN,
    Grade,
    Task,
    check_values,
    grade_solution,
    is_custom,
    read_problems,
)
from pvg_hf.trainers.common.grpo import TAKEN_COLUMNS, refuse_taken_columns
from pvg_hf.trainers.prover.stopping import StopRule, rehearse
from pvg_hf.trainers.reward.invariance import invariant_risk, load_regulariser, read_method

NUM_PROBLEMS = 5  # problems of the verifier's part (D_V) and of the test part with references that are graded

# Texts that a prover may write and that are not solutions; grading them must not fail.
NO_SOLUTIONS = (
    "",
    " \n",
    "####",
    "#### ",
    "I do not know.",
    "{[(\\boxed{",
    "\x00\u202e\ud7ff \U0001f9ee",
    "9" * 400,
    "ab " * 2000,
)


def check_task(recipe: Recipe, problems: GameProblems) -> Iterator[str]:
    """List mistakes in the task: its problems, prompts and grades."""
    task, where = problems.task, f"`task.name` is `{recipe.task.name}`"
    if is_custom(task):
        yield from refusals(where, partial(_compare_problems, recipe, task))
    yield from refusals(where, partial(solution_features, task))
    # The prover's rows are the problems with `role` and `prompt`.
    taken = {*TAKEN_COLUMNS, "role", "prompt"}
    yield from refusals(where, partial(refuse_taken_columns, problems.parts["prover"].column_names, taken))
    yield from _check_prompts(recipe, problems)
    yield from refusals(where, partial(_rehearse_grades, problems))


def _compare_problems(recipe: Recipe, task: Task) -> None:
    """
    Check that a task gives the same problems again, as resuming a run requires.

    Raises:
        ValueError: if the task, or a new instance of it, gives other problems than before.
    """
    for split in ("train", "test"):
        problems = [read_problems(source, split) for source in (task, load_recipe_task(recipe))]
        first, second = (
            [] if rows is None else rows.select_columns(list(PROBLEM_COLUMNS)).to_list() for rows in problems
        )
        if first == second:
            continue
        differing = (i for i, rows in enumerate(zip(first, second, strict=False)) if rows[0] != rows[1])
        place = next(differing, min(len(first), len(second)))
        one, other = (rows[place]["problem_id"] if place < len(rows) else "no row" for rows in (first, second))
        raise ValueError(
            f"`problems({split!r})` must be the same at every call, since a resumed run calls it again; row {place} of "
            f"{len(first)} is `{one}` in one call and `{other}` in the next. Draw problems from a seeded generator, such as "
            "`pvg_hf.core.seeding.derive_rng`, and not from a set's order."
        )


def _check_prompts(recipe: Recipe, problems: GameProblems) -> Iterator[str]:
    problem = problems.parts["verifier"][0]
    is_base_needed = recipe.bootstrap.import_from is None or recipe.prover.warmup or recipe.verifier.warmup
    for role in Role if is_base_needed else GAME_ROLES:
        text = partial(problems.prompts.text, problem, role, honest_solution=problem["reference"])
        yield from refusals(f"the prompt of the problem `{problem['problem_id']}`", text)


def _rehearse_grades(game: GameProblems) -> None:
    """
    Grade references and texts that are not solutions.

    Raises:
        ValueError: if a return value is not a valid grade, a reference is graded wrong (unless the task allows it), or an empty
            solution is graded correct.
    """
    task = game.task
    problems = [problem for part in ("verifier", "test") for problem in game.sample(part, NUM_PROBLEMS)]
    grades = [grade_solution(task, problem, problem["reference"]) for problem in problems]
    texts = {text: grade_solution(task, problems[0], text) for text in NO_SOLUTIONS}
    for grade in (*grades, *texts.values()):
        _check_storage(task, grade)
    lucky = [text for text in NO_SOLUTIONS[:2] if texts[text].correct]
    if lucky:
        raise ValueError(
            f"`grade` returns correct for the solution {lucky[0]!r} to the problem `{problems[0]['problem_id']}`; an empty text "
            "is not a solution."
        )
    wrong = [(p, g) for p, g in zip(problems, grades, strict=True) if not g.correct or g.certified is False]
    if wrong and task.references_are_correct:
        problem, grade = wrong[0]
        raise ValueError(
            f"{len(wrong)} of {len(problems)} references are graded as wrong, e.g. that of the problem "
            f"`{problem['problem_id']}`, {problem['reference'][-SHOWN:]!r}, whose answer is read as {grade.answer!r:.80}"
            f"{', without a certificate' if grade.certified is False else ''}. Fix `grade` or the references. If they are bare "
            "answers, or some are known to be wrong, set `references_are_correct = False` in the task's class."
        )
    for text in (*NO_SOLUTIONS, problems[0]["reference"]):
        with running(f"`read_answer` of the task `{task.name}`, asked about {text[:SHOWN]!r},"):
            answer = task.read_answer(text)
        if not isinstance(answer, str | None):
            raise ValueError(
                f"`read_answer` returns {answer!r:.80} for {text[:SHOWN]!r}; it must return a text or None."
            )
        with running(f"`solution_in` of the task `{task.name}`, asked about {text[:SHOWN]!r},"):
            solution = task.solution_in(text)
        if not isinstance(solution, str):
            raise ValueError(f"`solution_in` returns {solution!r:.80} for {text[:SHOWN]!r}; it must return a text.")


def _check_storage(task: Task, grade: Grade) -> None:
    for name, feature in task.detail_columns.items():
        check_values([grade.detail[name]], feature, f"`detail[{name!r}]` of a grade of the task `{task.name}`")


def check_extensions(recipe: Recipe, signal: Callable[[str], float]) -> Iterator[str]:
    """
    List mistakes in a round's reward, stop rule and invariance penalty.

    Args:
        recipe ([`Recipe`]):
            Recipe with the round's overrides.
        signal (`Callable`):
            `(name) -> value` of what a reward reads of a solution's grade, as [`read_signal`] does.
    """
    refused = refusals("`prover.reward`", partial(_rehearse_reward, recipe, signal))
    yield from refused
    # `auto` takes the rule of the reward, which is already refused.
    if not (refused and recipe.stopping.rule == "auto"):
        yield from refusals("`stopping.rule`", partial(_rehearse_stop_rule, recipe))
    yield from refusals("`verifier.invariance.method`", partial(_rehearse_penalty, recipe))


def _rehearse_reward(recipe: Recipe, signal: Callable[[str], float]) -> None:
    """
    Call the reward on synthetic solutions.

    Raises:
        ValueError: if a reward is not finite.
    """
    rewards = _reward_synthetic(recipe, signal)
    num_bad = int((~rewards.isfinite()).sum())
    if num_bad:
        raise ValueError(
            f"`{recipe.prover.reward}` returns NaN for {num_bad} of {len(rewards)} solutions with finite scores and an answer; "
            "each needs a finite reward."
        )


def _reward_synthetic(
    recipe: Recipe,
    signal: Callable[[str], float],
    *,
    slope: float = 1.0,
    shift: float = 0.0,
    are_correct: bool = False,
) -> torch.Tensor:
    """
    Compute the rewards of a helpful and a sneaky group of synthetic solutions.

    Args:
        recipe ([`Recipe`]), signal (`Callable`):
            The same as for [`check_extensions`].
        slope (`float`, defaults to 1.0), shift (`float`, defaults to 0.0):
            Factor and summand of the scores.
        are_correct (`bool`, defaults to `False`):
            Whether all solutions are correct, and not every other one.

    Returns:
        `torch.Tensor` of shape `(2 * num_generations,)`: the rewards, those of the helpful group first.
    """
    size = recipe.prover.num_generations
    index = torch.arange(2 * size)
    reward = load_reward(recipe.prover.reward)
    return reward(
        slope * (index / size - 1) + shift,
        (index % 2 == 0) | are_correct,
        index >= size,
        group_size=size,
        answered=torch.ones(2 * size, dtype=torch.bool),
        **{name: torch.full((2 * size,), signal(name)) for name in reward.signals},
        **recipe.prover.reward_options,
    )


def seems_relative(recipe: Recipe) -> bool:
    """
    Whether the prover's reward seems to be relative to the group of helpful solutions.

    It depends on the scores, but not on a constant that is added to all of them; or it depends on the correctness, but its
    mean over the group stays the same if all solutions are correct.
    """
    pay = partial(_reward_synthetic, recipe, lambda name: 1.0)
    plain, raised, reversed_, correct = (
        rewards[: recipe.prover.num_generations].double()
        for rewards in (pay(), pay(shift=1.0), pay(slope=-1.0), pay(are_correct=True))
    )
    by_scores = torch.allclose(plain, raised, atol=1e-6) and not torch.allclose(plain, reversed_, atol=1e-6)
    by_correctness = not torch.allclose(plain, correct) and torch.allclose(plain.mean(), correct.mean(), atol=1e-6)
    return by_scores or by_correctness


def read_signal(problems: GameProblems, name: str) -> float:
    """Signal `name` in the grade of the first problem's reference; NaN if the grade has none."""
    problem = problems.parts["verifier"][0]
    return grade_solution(problems.task, problem, problem["reference"]).signal(name)


def _rehearse_stop_rule(recipe: Recipe) -> None:
    for roles, training in recipe.prover.trainings.items():
        rule = StopRule(recipe.stopping, training)
        if rule.is_custom:
            rehearse(rule, roles)


def _rehearse_penalty(recipe: Recipe) -> None:
    """
    Call a custom invariance penalty on two environments of two pairs.

    Raises:
        ValueError: if it is not a finite scalar.
    """
    method = recipe.verifier.invariance.method
    if ":" not in method or not recipe.verifier.traits.learns_from_pairs:
        return
    margins = torch.tensor([0.5, -0.5, 1.0, -1.0], requires_grad=True)
    environments = torch.tensor([0, 0, 1, 1])
    risk = invariant_risk(margins, environments, load_regulariser(read_method(method).penalty), weight=1.0)
    if not risk.penalty.isfinite():
        raise ValueError(f"The invariance penalty `{method}` returns {risk.penalty.item()}; it must be finite.")
