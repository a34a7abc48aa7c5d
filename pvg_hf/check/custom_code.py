"""Checks the task and custom code by calling them on a few problems or synthetic inputs."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest

import torch

from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import ProverConfig, VerifierConfig
from pvg_hf.core.extensions import running
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.problems import GameProblems, load_recipe_task
from pvg_hf.data.schema import solution_features
from pvg_hf.rewards import load_reward
from pvg_hf.tasks.base import (
    PROBLEM_COLUMNS,
    SHOWN,
    Task,
    check_values,
    grade_solution,
    is_custom,
    read_problems,
)
from pvg_hf.tasks.prompts import shown_examples
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
    Raise a `ValueError` if a task, or a new instance of it, gives other problems than before: resuming needs the same.
    """
    for split in ("train", "test"):
        tables = [read_problems(source, split) for source in (task, load_recipe_task(recipe))]
        first, second = (
            [] if rows is None else rows.select_columns(list(PROBLEM_COLUMNS)).to_list() for rows in tables
        )
        for place, rows in enumerate(zip_longest(first, second)):
            if rows[0] != rows[1]:
                one, other = ("no row" if row is None else row["problem_id"] for row in rows)
                raise ValueError(
                    f"`problems({split!r})` must be the same at every call, since a resumed run calls it again; row"
                    f" {place} of {len(first)} is `{one}` in one call and `{other}` in the next. Draw problems from a"
                    " seeded generator (`pvg_hf.core.seeding.derive_rng`), and not from a set's order."
                )


def _check_prompts(recipe: Recipe, problems: GameProblems) -> Iterator[str]:
    problem = problems.parts["verifier"][0]
    is_base_needed = recipe.bootstrap.import_from is None or recipe.prover.warmup or recipe.verifier.warmup
    for role in Role if is_base_needed else GAME_ROLES:
        text = partial(problems.prompts.text, problem, role, honest_solution=problem["reference"])
        yield from refusals(f"the prompt of the problem `{problem['problem_id']}`", text)


def _rehearse_grades(game: GameProblems) -> None:
    """
    Grade references and texts that are not solutions, and raise a `ValueError` at the first grade that no game can
    use.
    """
    task = game.task
    problems = [problem for part in ("verifier", "test") for problem in game.sample(part, NUM_PROBLEMS)]
    grades = [grade_solution(task, problem, problem["reference"]) for problem in problems]
    texts = {text: grade_solution(task, problems[0], text) for text in NO_SOLUTIONS}
    for grade in (*grades, *texts.values()):
        for name, feature in task.detail_columns.items():
            check_values([grade.detail[name]], feature, f"`detail[{name!r}]` of a grade of the task `{task.name}`")
    lucky = [text for text in NO_SOLUTIONS[:2] if texts[text].correct]
    if lucky:
        raise ValueError(
            f"`grade` returns correct for the solution {lucky[0]!r} to the problem `{problems[0]['problem_id']}`; an"
            " empty text is not a solution."
        )
    wrong = [(p, g) for p, g in zip(problems, grades, strict=True) if not g.correct or g.certified is False]
    if wrong and task.references_are_correct:
        problem, grade = wrong[0]
        raise ValueError(
            f"{len(wrong)} of {len(problems)} references are graded as wrong, e.g. that of the problem"
            f" `{problem['problem_id']}`, {problem['reference'][-SHOWN:]!r}, whose answer is read as"
            f" {grade.answer!r:.80}{', without a certificate' if grade.certified is False else ''}. Fix `grade` or the"
            " references. If they are bare answers, or some are known to be wrong, set `references_are_correct ="
            " False` in the task's class."
        )
    for example, solution in shown_examples(game.prompts.examples, Role.SNEAKY):
        if grade_solution(task, {**problems[0], **example, "reference": example["solution"]}, solution).correct:
            raise ValueError(
                f"an example's `wrong_solution`, {solution[-SHOWN:]!r}, is graded as correct. The sneaky role is shown"
                " it as a wrong one: correct it in the task's `few_shot_examples`, or leave it out."
            )
    for text in (*NO_SOLUTIONS, problems[0]["reference"]):
        for read, kinds in ((task.read_answer, str | None), (task.solution_in, str)):
            with running(f"`{read.__name__}` of the task `{task.name}`, asked about {text[:SHOWN]!r},"):
                found = read(text)
            if not isinstance(found, kinds):
                raise ValueError(
                    f"`{read.__name__}` returns {found!r:.80} for {text[:SHOWN]!r}; it must return a text"
                    f"{'' if kinds is str else ' or None'}."
                )


def check_extensions(recipe: Recipe, signal: Callable[[str], float]) -> Iterator[str]:
    """
    List mistakes in a round's reward, stop rule and invariance penalty.

    `signal` returns what a reward reads of a solution's grade, by name, as [`read_signal`] does.
    """
    refused = refusals("`prover.reward`", partial(_rehearse_reward, recipe.prover, signal))
    yield from refused
    # `auto` takes the rule of the reward, which is already refused.
    if not (refused and recipe.stopping.rule == "auto"):
        yield from refusals("`stopping.rule`", partial(_rehearse_stop_rule, recipe))
    yield from refusals("`verifier.invariance.method`", partial(_rehearse_penalty, recipe.verifier))


def _rehearse_reward(config: ProverConfig, signal: Callable[[str], float]) -> None:
    rewards = _reward_synthetic(config, signal)
    num_bad = int((~rewards.isfinite()).sum())
    if num_bad:
        raise ValueError(
            f"`{config.reward}` returns NaN for {num_bad} of {len(rewards)} solutions with finite scores and an"
            " answer; each needs a finite reward."
        )


def _reward_synthetic(
    config: ProverConfig,
    signal: Callable[[str], float],
    *,
    slope: float = 1.0,
    shift: float = 0.0,
    are_correct: bool = False,
) -> torch.Tensor:
    """
    Compute the rewards of a helpful and a sneaky group of synthetic solutions, the helpful ones first.

    Scores are `slope * x + shift`. Every other solution is correct, or all if `are_correct`.
    """
    size = config.num_generations
    index = torch.arange(2 * size)
    reward = load_reward(config.reward)
    return reward(
        slope * (index / size - 1) + shift,
        (index % 2 == 0) | are_correct,
        index >= size,
        group_size=size,
        answered=torch.ones(2 * size, dtype=torch.bool),
        **{name: torch.full((2 * size,), signal(name)) for name in reward.signals},
        **config.reward_options,
    )


def seems_relative(config: ProverConfig) -> bool:
    """
    Whether the prover's reward seems to be relative to the group of helpful solutions.

    It depends on the scores, but not on a constant that is added to all of them; or it depends on the correctness, but
    its mean over the group stays the same if all solutions are correct.
    """
    pay = partial(_reward_synthetic, config, lambda name: 1.0)
    plain, raised, reversed_, correct = (
        rewards[: config.num_generations].double()
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


def _rehearse_penalty(config: VerifierConfig) -> None:
    """Call a custom invariance penalty on two environments of two pairs."""
    method = config.invariance.method
    if ":" not in method or not config.traits.learns_from_pairs:
        return
    margins, environments = torch.tensor([0.5, -0.5, 1.0, -1.0], requires_grad=True), torch.tensor([0, 0, 1, 1])
    penalty = read_method(method).penalty
    assert penalty is not None
    risk = invariant_risk(margins, environments, load_regulariser(penalty), weight=1.0)
    if not risk.penalty.isfinite():
        raise ValueError(f"The invariance penalty `{method}` returns {risk.penalty.item()}; it must be finite.")
